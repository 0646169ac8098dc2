-- The next tick of a schedule that is not paused.
SELECT min(next_tick) FROM schedules WHERE paused_at IS NULL
