-- Remove the jobs in some pages of a day that is over its retention; the totals go on counting them, at every moment. One that
-- is just being retried is unfinished, or counted here, but never both.
WITH gone AS (
    DELETE FROM {day} WHERE ctid >= %(first)s::tid AND ctid < %(last)s::tid RETURNING id, queue_id, type, status
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'expired_' || status, count(*) FROM gone GROUP BY 1, 2, 3
), unnoted AS (
    DELETE FROM job_attempts a USING gone g WHERE a.job_id = g.id
)
SELECT count(*) FROM gone
