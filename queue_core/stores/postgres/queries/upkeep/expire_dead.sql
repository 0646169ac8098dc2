-- Remove dead jobs that are over their retention, a batch; the totals go on counting them. Those that hold
-- their ordering keys only by their ids, when their gates are locked.
WITH gone AS (
    DELETE FROM jobs_dead
     WHERE id = ANY (ARRAY(SELECT id FROM jobs_dead
                            WHERE trashed_at IS NULL AND died_at < now() - make_interval(secs => %(seconds)s)
                              AND CASE WHEN %(ids)s::uuid[] IS NULL THEN NOT holds ELSE id = ANY (%(ids)s::uuid[]) END
                            ORDER BY died_at, id LIMIT %(limit)s))
    RETURNING id, queue_id, type
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'expired_dead', count(*) FROM gone GROUP BY 1, 2
), unnoted AS (
    DELETE FROM job_attempts a USING gone g WHERE a.job_id = g.id
)
SELECT count(*) FROM gone
