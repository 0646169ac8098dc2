-- The number of a queue that is not paused.
SELECT number FROM queues WHERE name = ? AND paused_at IS NULL
