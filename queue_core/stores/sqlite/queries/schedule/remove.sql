-- Forget a schedule.
DELETE FROM schedules WHERE name = ?
