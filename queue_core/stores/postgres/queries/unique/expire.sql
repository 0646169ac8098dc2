-- Forget unique keys whose time is over, a batch.
WITH gone AS (
    DELETE FROM job_keys
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM job_keys WHERE expires_at < 'infinity' AND expires_at <= now()
                              LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) FROM gone
