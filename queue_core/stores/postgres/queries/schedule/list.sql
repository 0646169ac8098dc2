-- The clock, and every schedule by name; one row of nulls when there is none.
SELECT extract(epoch FROM c.now)::float8, s.name, cron, tz, type, payload, queue, priority, max_retries,
       ordering_key, extract(epoch FROM next_tick)::float8, paused_at IS NOT NULL, extract(epoch FROM last_tick)::float8, last_job::text
  FROM (SELECT clock_timestamp() AS now) c
  LEFT JOIN schedules s ON true
 ORDER BY s.name
