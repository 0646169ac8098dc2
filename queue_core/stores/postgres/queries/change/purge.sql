-- Remove jobs in the trash for good, with their attempts and logs; the totals go on counting them. Not those that were changed
-- since their tokens were noted.
WITH locked AS MATERIALIZED (
    SELECT d.id
      FROM (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token) ORDER BY id) i
     CROSS JOIN LATERAL (SELECT id FROM jobs_dead d
                          WHERE d.id = i.id AND d.trashed_at IS NOT NULL AND (i.token IS NULL OR d.last_token = i.token)
                            FOR UPDATE) d
), gone AS (
    DELETE FROM jobs_dead WHERE id = ANY (ARRAY(SELECT id FROM locked)) RETURNING id, queue_id, type
), unnoted AS (
    DELETE FROM job_attempts WHERE job_id = ANY (ARRAY(SELECT id FROM gone))
), forgotten AS (
    DELETE FROM job_logs WHERE job_id = ANY (ARRAY(SELECT id FROM gone))
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'purged', count(*) FROM gone GROUP BY queue_id, type
)
SELECT id::text FROM gone
