-- Move a schedule's next tick on, unless somebody else was sooner, or it is paused, and note the tick that has passed. No row:
-- no job is to come of it. The row lock of `moved` makes others wait for this transaction, and then find another tick.
WITH moved AS (
    UPDATE schedules SET next_tick = to_timestamp(%(following)s)
     WHERE name = %(name)s AND next_tick = to_timestamp(%(due)s) AND paused_at IS NULL
    RETURNING name
)
INSERT INTO schedule_ticks (schedule, tick, job_id)
SELECT name, to_timestamp(%(due)s), %(job_id)s FROM moved
    ON CONFLICT (schedule, tick) DO NOTHING
RETURNING schedule
