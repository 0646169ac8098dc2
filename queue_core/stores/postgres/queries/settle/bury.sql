-- Move running jobs whose lease still holds to dead. Locks, fence and look-ups are those of settle/finish.
WITH input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(run_us)s::bigint[], %(kind)s::text[], %(exception)s::text[],
                  %(message)s::text[], %(traceback)s::text[], %(signature)s::text[], %(title)s::text[], %(summary)s::text[])
           AS i (id, token, run_us, kind, exception, said, traceback, signature, title, summary)
), held AS MATERIALIZED (
    SELECT j.*, i.token, i.run_us, i.kind, i.exception, i.said, i.traceback, i.signature, i.title, i.summary, l.worker,
           l.started_at, l.progress, l.message
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM leases l WHERE l.id = i.id AND l.token = i.token OFFSET 0) l
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
), buried AS (
    INSERT INTO jobs_dead (id, queue_id, seq, priority, run_at, type, payload, tags, retry_count, crashes, losses, max_retries,
                           last_token, error, signature, kind, progress, message, worker, created_at, started_at,
                           ordering_key, holds, unique_key, unique_seconds)
    SELECT id, queue_id, seq, priority, run_at, type, payload, tags, retry_count, crashes + (kind = 'poison')::int,
           losses + (kind = 'lost')::int, max_retries, token, summary, signature, kind, progress, message, worker, created_at, started_at,
           ordering_key, holds AND queue_id = ANY (ARRAY(SELECT id FROM queues WHERE name = ANY (%(blocking)s::text[]))),
           unique_key, unique_seconds
      FROM gone
), noted AS (
    INSERT INTO job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at)
    SELECT id, token, retry_count + crashes + losses + 1, kind, exception, said, traceback, signature, 'dead',
           worker, started_at
      FROM gone
), named AS (
    INSERT INTO error_signatures (signature, title, exception)
    SELECT DISTINCT ON (signature) signature, title, exception FROM gone ORDER BY signature
        ON CONFLICT (signature) DO NOTHING
), measured AS (
    SELECT queue_id, type, signature, kind, run_us,
           greatest(0, extract(epoch FROM started_at - run_at) * 1000000)::bigint AS wait_us
      FROM gone
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, signature, wait_bucket, run_bucket, n, wait_us, run_us)
    SELECT queue_id, type, 'dead', signature, width_bucket(wait_us - 1, %(bounds)s::bigint[]),
           width_bucket(run_us - 1, %(bounds)s::bigint[]), count(*), sum(wait_us), sum(run_us)
      FROM measured GROUP BY 1, 2, 3, 4, 5, 6
    UNION ALL
    SELECT queue_id, type, 'timed_out', '', -1, -1, count(*), 0, 0 FROM measured WHERE kind = 'timeout' GROUP BY 1, 2
)
SELECT id::text, token FROM gone
