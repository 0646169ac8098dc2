-- name: list
-- The clock, and every schedule by name; one row of nulls when there is none.
SELECT extract(epoch FROM c.now)::float8, s.name, cron, tz, type, payload, queue, priority, max_retries,
       ordering_key, extract(epoch FROM next_tick)::float8, paused_at IS NOT NULL, extract(epoch FROM last_tick)::float8, last_job::text
  FROM (SELECT clock_timestamp() AS now) c
  LEFT JOIN {schema}.schedules s ON true
 ORDER BY s.name

-- name: ticks
-- The ticks of a schedule that have passed, the newest first.
SELECT extract(epoch FROM tick)::float8, job_id::text
  FROM {schema}.schedule_ticks
 WHERE schedule = %(name)s
 ORDER BY tick DESC
 LIMIT %(limit)s

-- name: last
-- Note a schedule's last tick and its job.
UPDATE {schema}.schedules SET last_tick = to_timestamp(%(due)s), last_job = %(job_id)s WHERE name = %(name)s RETURNING name

-- name: next
-- The seconds until the next tick of a schedule that is not paused; null when there is none.
SELECT extract(epoch FROM min(next_tick) - clock_timestamp())::float8 FROM {schema}.schedules WHERE paused_at IS NULL

-- name: pass
-- Move a schedule's next tick on, unless another process was first, or it is paused, and note the tick that has passed. No row:
-- no job is to come of it. The row lock of `moved` makes others wait for this transaction, and then find another tick.
WITH moved AS (
    UPDATE {schema}.schedules SET next_tick = to_timestamp(%(following)s)
     WHERE name = %(name)s AND next_tick = to_timestamp(%(due)s) AND paused_at IS NULL
    RETURNING name
)
INSERT INTO {schema}.schedule_ticks (schedule, tick, job_id)
SELECT name, to_timestamp(%(due)s), %(job_id)s FROM moved
    ON CONFLICT (schedule, tick) DO NOTHING
RETURNING schedule

-- name: announce
-- Write schedules, each in the place of the one of its name; a next tick stays unless cron, tz or type have changed.
INSERT INTO {schema}.schedules AS s (name, cron, tz, type, payload, queue, priority, max_retries, ordering_key, next_tick)
SELECT name, cron, tz, type, payload, queue, priority, max_retries, ordering_key, to_timestamp(next_tick)
  FROM unnest(%(name)s::text[], %(cron)s::text[], %(tz)s::text[], %(type)s::text[], %(payload)s::text[],
              %(queue)s::text[], %(priority)s::smallint[], %(max_retries)s::int[], %(ordering_key)s::text[],
              %(next_tick)s::float8[])
       AS a (name, cron, tz, type, payload, queue, priority, max_retries, ordering_key, next_tick)
 -- Programs that announce the same ones at once must not wait for each other in a circle.
 ORDER BY name
    ON CONFLICT (name) DO UPDATE SET
       cron = excluded.cron, tz = excluded.tz, type = excluded.type, payload = excluded.payload, queue = excluded.queue,
       priority = excluded.priority, max_retries = excluded.max_retries, ordering_key = excluded.ordering_key,
       announced_at = now(),
       next_tick = CASE WHEN (s.cron, s.tz, s.type) = (excluded.cron, excluded.tz, excluded.type) THEN s.next_tick
                        ELSE excluded.next_tick END
RETURNING name

-- name: pause
-- Pause a schedule that is not.
UPDATE {schema}.schedules SET paused_at = now() WHERE name = %(name)s AND paused_at IS NULL RETURNING name

-- name: resume
-- Let a paused schedule tick again, next at this time.
UPDATE {schema}.schedules SET paused_at = NULL, next_tick = to_timestamp(%(next_tick)s)
 WHERE name = %(name)s AND paused_at IS NOT NULL
RETURNING name

-- name: remove
-- Forget a schedule and its ticks.
WITH ticks AS (DELETE FROM {schema}.schedule_ticks WHERE schedule = %(name)s)
DELETE FROM {schema}.schedules WHERE name = %(name)s RETURNING name
