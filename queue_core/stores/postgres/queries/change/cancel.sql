-- Move locked waiting jobs to cancelled, and ask the workers of running ones to stop them, but for those that were run again since
-- their tokens were noted. A statement of its own, for a lease that was taken while the lock was waited for is only seen by a
-- new one. A waiting job with an ordering key only where its gate is locked.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token)
), waiting AS MATERIALIZED (
    SELECT j.id
      FROM input i
     CROSS JOIN LATERAL (SELECT id FROM jobs j
                          WHERE j.id = i.id AND (i.token IS NULL OR j.last_token = i.token)
                            AND (SELECT true FROM leases l WHERE l.id = j.id) IS NULL
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(gates)s::text[]))
                         OFFSET 0) j
), running AS MATERIALIZED (
    SELECT l.id
      FROM input i
     CROSS JOIN LATERAL (SELECT id FROM leases l
                          WHERE l.id = i.id AND (i.token IS NULL OR l.token = i.token) AND NOT l.cancel
                            AND (SELECT true FROM jobs j WHERE j.id = l.id)
                         OFFSET 0) l
), gone AS (
    DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM waiting)) RETURNING *
), kept AS (
    INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses,
                             max_retries, last_token, error, created_at, ordering_key, unique_key, unique_seconds)
    SELECT id, queue_id, seq, priority, 'cancelled', run_at, type, payload, tags, retry_count, crashes, losses, max_retries,
           last_token, error, created_at, ordering_key, unique_key, unique_seconds
      FROM gone
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'cancelled', count(*) FROM gone GROUP BY queue_id, type
), asked AS (
    UPDATE leases SET cancel = true WHERE id = ANY (ARRAY(SELECT id FROM running)) AND NOT cancel RETURNING id
)
SELECT id::text FROM gone UNION ALL SELECT id::text FROM asked
