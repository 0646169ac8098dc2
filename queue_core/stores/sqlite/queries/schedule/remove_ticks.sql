-- Forget the ticks of a schedule.
DELETE FROM schedule_ticks WHERE schedule = ?
