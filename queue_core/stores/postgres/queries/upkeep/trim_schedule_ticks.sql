-- Forget some ticks that passed before a time; return their number.
WITH gone AS (
    DELETE FROM schedule_ticks WHERE (schedule, tick) IN (
        SELECT schedule, tick FROM schedule_ticks WHERE tick < now() - make_interval(secs => %(seconds)s)
         ORDER BY tick LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM gone
