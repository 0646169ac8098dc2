-- Remove jobs in the trash for good, with their attempts and logs; the totals go on counting them.
WITH locked AS MATERIALIZED (
    SELECT id FROM jobs_dead WHERE id = ANY (%(ids)s::uuid[]) AND trashed_at IS NOT NULL ORDER BY id FOR UPDATE
), gone AS (
    DELETE FROM jobs_dead d USING locked l WHERE d.id = l.id RETURNING d.id, d.queue_id, d.type
), unnoted AS (
    DELETE FROM job_attempts a USING gone g WHERE a.job_id = g.id
), forgotten AS (
    DELETE FROM job_logs WHERE job_id = ANY (ARRAY(SELECT id FROM gone))
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'purged', count(*) FROM gone GROUP BY queue_id, type
)
SELECT id::text FROM gone
