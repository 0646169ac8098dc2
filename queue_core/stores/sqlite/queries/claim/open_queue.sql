-- A queue that is not paused: its number, whether it counts its jobs, and its rate's tokens as of a time.
SELECT number, counted, tokens, refilled_at FROM queues WHERE name = ? AND paused_at IS NULL
