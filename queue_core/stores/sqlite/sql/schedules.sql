-- name: last
-- Store a schedule's last tick and its job.
UPDATE schedules SET last_tick = :due, last_job = :job_id WHERE name = :name

-- name: move
-- Move a schedule's next tick on, unless another process was first, or it is paused.
UPDATE schedules SET next_tick = :following WHERE name = :name AND next_tick = :due AND paused_at IS NULL

-- name: tick
-- Store that a tick has passed, which it does once.
INSERT INTO schedule_ticks (schedule, tick, job_id, fired_at) VALUES (:name, :due, :job_id, :now)
    ON CONFLICT (schedule, tick) DO NOTHING

-- name: next
-- The next tick of a schedule that is not paused.
SELECT min(next_tick) FROM schedules WHERE paused_at IS NULL

-- name: remove_ticks
-- Forget the ticks of a schedule.
DELETE FROM schedule_ticks WHERE schedule = ?

-- name: remove
-- Forget a schedule.
DELETE FROM schedules WHERE name = ?

-- name: announce
-- Write a schedule in place of the one of its name; its next tick stays unless cron, tz or type have changed.
INSERT INTO schedules (name, cron, tz, type, payload, queue, priority, max_retries, ordering_key, next_tick)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT (name) DO UPDATE SET
       cron = excluded.cron, tz = excluded.tz, type = excluded.type, payload = excluded.payload, queue = excluded.queue,
       priority = excluded.priority, max_retries = excluded.max_retries, ordering_key = excluded.ordering_key,
       next_tick = iif(
           (schedules.cron, schedules.tz, schedules.type) = (excluded.cron, excluded.tz, excluded.type),
           schedules.next_tick, excluded.next_tick)

-- name: pause
-- Pause a schedule that is not.
UPDATE schedules SET paused_at = :now WHERE name = :name AND paused_at IS NULL

-- name: resume
-- Let a paused schedule tick again, next at this time.
UPDATE schedules SET paused_at = NULL, next_tick = :next_tick WHERE name = :name AND paused_at IS NOT NULL

-- name: ticks
-- The ticks of a schedule that have passed, the newest first.
SELECT tick, job_id FROM schedule_ticks WHERE schedule = ? ORDER BY tick DESC LIMIT ?

-- name: list
-- Every schedule, by name.
SELECT name, cron, tz, type, payload, queue, priority, max_retries, ordering_key, next_tick, paused_at IS NOT NULL, last_tick,
       last_job
  FROM schedules
 ORDER BY name
