-- Forget some ticks that passed before a time.
DELETE FROM schedule_ticks WHERE (schedule, tick) IN (SELECT schedule, tick FROM schedule_ticks WHERE tick < ? ORDER BY tick LIMIT ?)
