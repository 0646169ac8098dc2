-- The ticks of a schedule that have passed, the newest first.
SELECT tick, job_id FROM schedule_ticks WHERE schedule = ? ORDER BY tick DESC LIMIT ?
