-- Move running jobs whose lease still holds to completed or cancelled: jobs first, then leases, then the history.
-- A job with an ordering key only where its gate is locked: it is let go of by gates/open in the same transaction.
-- No joins: whatever the statistics say, each row is looked up by its id (LATERAL with OFFSET 0, = ANY, a hashed IN).
WITH input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(status)s::text[], %(run_us)s::bigint[], %(result)s::text[])
           AS i (id, token, outcome, run_us, result)
), held AS MATERIALIZED (
    SELECT j.*, i.token, i.outcome, i.run_us, i.result, l.worker, l.started_at
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM leases l WHERE l.id = i.id AND l.token = i.token OFFSET 0) l
     CROSS JOIN LATERAL (SELECT * FROM jobs j
                          WHERE j.id = i.id AND j.last_token < i.token
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(gates)s::text[]))
                         OFFSET 0) j
), deleted AS (
    DELETE FROM jobs
     WHERE id = ANY (ARRAY(SELECT id FROM held))
       -- The fence, for a row that changed while its lock was waited for: whoever ended its attempt has written that
       -- attempt's own token here, which is nobody's last one in this batch.
       AND last_token = ANY (ARRAY(SELECT DISTINCT last_token FROM held))
    RETURNING id
), gone AS MATERIALIZED (
    SELECT * FROM held WHERE (id IN (SELECT id FROM deleted)) IS TRUE
), freed AS (
    DELETE FROM leases WHERE id = ANY (ARRAY(SELECT id FROM gone))
), kept AS (
    INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses,
                             max_retries, last_token, error, result, worker, created_at, started_at, ordering_key,
                             unique_key, unique_seconds)
    SELECT id, queue_id, seq, priority, outcome::job_status, run_at, type, payload, tags, retry_count, crashes, losses,
           max_retries, token, error, result, worker, created_at, started_at, ordering_key, unique_key, unique_seconds
      FROM gone
), measured AS (
    SELECT queue_id, type, outcome, run_us,
           greatest(0, extract(epoch FROM started_at - run_at) * 1000000)::bigint AS wait_us
      FROM gone
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us)
    SELECT queue_id, type, outcome, width_bucket(wait_us - 1, %(bounds)s::bigint[]),
           width_bucket(run_us - 1, %(bounds)s::bigint[]), count(*), sum(wait_us), sum(run_us)
      FROM measured
     GROUP BY 1, 2, 3, 4, 5
)
SELECT id::text, token FROM gone
