-- Cancel jobs whose attempt ended without a result, when somebody asked for it while they ran: the wish came too late for
-- this attempt and must not come too early for another one.
WITH input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(retry)s::bool[], %(run_us)s::bigint[], %(kind)s::text[],
                  %(exception)s::text[], %(message)s::text[], %(traceback)s::text[], %(signature)s::text[], %(title)s::text[],
                  %(summary)s::text[])
           AS i (id, token, retry, run_us, kind, exception, message, traceback, signature, title, summary)
), held AS MATERIALIZED (
    SELECT j.*, i.token, i.retry, i.run_us, i.kind, i.exception, i.message, i.traceback, i.signature, i.title, i.summary, l.worker,
           l.started_at
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM leases l WHERE l.id = i.id AND l.token = i.token AND l.cancel OFFSET 0) l
     CROSS JOIN LATERAL (SELECT * FROM jobs j
                          WHERE j.id = i.id AND j.last_token < i.token
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(gates)s::text[]))
                         OFFSET 0) j
), deleted AS (
    DELETE FROM jobs
     WHERE id = ANY (ARRAY(SELECT id FROM held)) AND last_token = ANY (ARRAY(SELECT DISTINCT last_token FROM held))
    RETURNING id
), gone AS MATERIALIZED (
    SELECT * FROM held WHERE (id IN (SELECT id FROM deleted)) IS TRUE
), freed AS (
    DELETE FROM leases WHERE id = ANY (ARRAY(SELECT id FROM gone))
), kept AS (
    INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses,
                             max_retries, last_token, error, worker, created_at, started_at, ordering_key, unique_key,
                             unique_seconds)
    SELECT id, queue_id, seq, priority, 'cancelled', run_at, type, payload, tags, retry_count, crashes,
           losses + (kind IS NOT NULL AND kind = 'lost')::int, max_retries, token,
           coalesce(summary, error), worker, created_at, started_at, ordering_key, unique_key, unique_seconds
      FROM gone
), noted AS (
    INSERT INTO job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at)
    SELECT id, token, retry_count + crashes + losses + 1, kind, exception, message, traceback, signature,
           CASE WHEN retry THEN 'retrying' ELSE 'released' END, worker, started_at
      FROM gone WHERE kind IS NOT NULL
), named AS (
    INSERT INTO error_signatures (signature, title, exception)
    SELECT DISTINCT ON (signature) signature, title, exception FROM gone WHERE kind IS NOT NULL ORDER BY signature
        ON CONFLICT (signature) DO NOTHING
), measured AS (
    SELECT queue_id, type, kind, run_us, greatest(0, extract(epoch FROM started_at - run_at) * 1000000)::bigint AS wait_us
      FROM gone
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us)
    SELECT queue_id, type, 'cancelled', width_bucket(wait_us - 1, %(bounds)s::bigint[]),
           width_bucket(run_us - 1, %(bounds)s::bigint[]), count(*), sum(wait_us), sum(run_us)
      FROM measured GROUP BY 1, 2, 4, 5
    UNION ALL
    SELECT queue_id, type, 'timed_out', -1, -1, count(*), 0, 0 FROM measured WHERE kind = 'timeout' GROUP BY 1, 2
)
SELECT id::text, token FROM gone
