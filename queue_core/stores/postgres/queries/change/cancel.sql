-- Move locked waiting jobs to cancelled, and ask the workers of running ones to stop them. A statement of its own, for a
-- lease that was taken while the lock was waited for is only seen by a new one. A waiting job with an ordering key only where its
-- gate is locked.
WITH gone AS (
    DELETE FROM jobs j
     WHERE j.id = ANY (%(ids)s::uuid[]) AND NOT EXISTS (SELECT FROM leases l WHERE l.id = j.id)
       AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(gates)s::text[]))
    RETURNING *
), kept AS (
    INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, retry_count, crashes,
                             max_retries, last_token, error, created_at, ordering_key, unique_key, unique_seconds)
    SELECT id, queue_id, seq, priority, 'cancelled', run_at, type, payload, tags, retry_count, crashes, max_retries,
           last_token, error, created_at, ordering_key, unique_key, unique_seconds
      FROM gone
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'cancelled', count(*) FROM gone GROUP BY queue_id, type
), asked AS (
    UPDATE leases l SET cancel = true
     WHERE l.id = ANY (%(ids)s::uuid[]) AND NOT l.cancel AND EXISTS (SELECT FROM jobs j WHERE j.id = l.id)
    RETURNING l.id
)
SELECT id::text FROM gone UNION ALL SELECT id::text FROM asked
