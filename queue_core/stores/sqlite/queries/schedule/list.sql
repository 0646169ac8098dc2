-- Every schedule, by name.
SELECT name, cron, tz, type, payload, queue, priority, max_retries, ordering_key, next_tick, paused_at IS NOT NULL, last_tick,
       last_job
  FROM schedules
 ORDER BY name
