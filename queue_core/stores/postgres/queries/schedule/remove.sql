-- Forget a schedule and its ticks.
WITH ticks AS (DELETE FROM schedule_ticks WHERE schedule = %(name)s)
DELETE FROM schedules WHERE name = %(name)s RETURNING name
