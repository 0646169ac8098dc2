-- The ticks of a schedule that have passed, the newest first.
SELECT extract(epoch FROM tick)::float8, job_id::text
  FROM schedule_ticks
 WHERE schedule = %(name)s
 ORDER BY tick DESC
 LIMIT %(limit)s
