-- Remove jobs that were in the trash for its retention, a batch; the totals go on counting them.
WITH gone AS (
    DELETE FROM jobs_dead
     WHERE id = ANY (ARRAY(SELECT id FROM jobs_dead
                            WHERE trashed_at < now() - make_interval(secs => %(seconds)s)
                            ORDER BY trashed_at, id LIMIT %(limit)s))
    RETURNING id, queue_id, type
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'expired_dead', count(*) FROM gone GROUP BY 1, 2
), unnoted AS (
    DELETE FROM job_attempts a USING gone g WHERE a.job_id = g.id
)
SELECT count(*) FROM gone
