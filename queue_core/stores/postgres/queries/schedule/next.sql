-- The seconds until the next tick of a schedule that is not paused; null when there is none.
SELECT extract(epoch FROM min(next_tick) - clock_timestamp())::float8 FROM schedules WHERE paused_at IS NULL
