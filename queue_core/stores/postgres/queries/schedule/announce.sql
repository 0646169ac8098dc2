-- Write schedules, each in the place of the one of its name; a next tick stays unless cron, tz or type have changed.
INSERT INTO schedules AS s (name, cron, tz, type, payload, queue, priority, max_retries, ordering_key, next_tick)
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
