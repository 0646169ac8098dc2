-- Write a schedule in the place of the one of its name; its next tick stays unless cron, tz or type have changed.
INSERT INTO schedules (name, cron, tz, type, payload, queue, priority, max_retries, ordering_key, next_tick)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT (name) DO UPDATE SET
       cron = excluded.cron, tz = excluded.tz, type = excluded.type, payload = excluded.payload, queue = excluded.queue,
       priority = excluded.priority, max_retries = excluded.max_retries, ordering_key = excluded.ordering_key,
       next_tick = iif(
           (schedules.cron, schedules.tz, schedules.type) = (excluded.cron, excluded.tz, excluded.type),
           schedules.next_tick, excluded.next_tick)
