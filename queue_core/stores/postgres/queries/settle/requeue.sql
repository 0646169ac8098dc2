-- Move running jobs whose lease still holds to retrying (due after a delay) or back (released): to queued at their place,
-- or anew, as jobs that arrive now, to queued or scheduled; but for those that somebody asked to cancel: they come to
-- settle/cancel_instead. Locks, fence and look-ups are those of settle/finish; the row is written anew. Who arrives anew lets
-- go of its ordering key and waits for it again.
WITH input AS MATERIALIZED (
    SELECT *, CASE WHEN anew THEN nextval('job_seq') END AS new_seq,
           CASE WHEN retry THEN now() + make_interval(secs => delay)
                WHEN anew THEN greatest(now(), coalesce(to_timestamp(run_at), now() + make_interval(secs => delay))) END AS due
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(retry)s::bool[], %(anew)s::bool[], %(delay)s::float8[],
                  %(run_at)s::float8[], %(arrival_us)s::bigint[], %(aging_us)s::bigint[], %(run_us)s::bigint[],
                  %(kind)s::text[], %(exception)s::text[], %(message)s::text[], %(traceback)s::text[],
                  %(signature)s::text[], %(title)s::text[], %(summary)s::text[])
           AS i (id, token, retry, anew, delay, run_at, arrival_us, aging_us, run_us, kind, exception, message, traceback,
                 signature, title, summary)
), held AS MATERIALIZED (
    SELECT j.*, i.token, i.retry, i.new_seq, i.due, i.arrival_us, i.aging_us, i.run_us, i.kind, i.exception, i.message, i.traceback, i.signature,
           i.title, i.summary, l.worker, l.started_at
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM leases l WHERE l.id = i.id AND l.token = i.token AND NOT l.cancel OFFSET 0) l
     CROSS JOIN LATERAL (SELECT * FROM jobs j
                          WHERE j.id = i.id AND j.last_token < i.token
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(gates)s::text[]))
                         OFFSET 0) j
), deleted AS (
    DELETE FROM jobs
     WHERE id = ANY (ARRAY(SELECT id FROM held)) AND last_token = ANY (ARRAY(SELECT DISTINCT last_token FROM held))
    RETURNING id
), changed AS MATERIALIZED (
    SELECT id, queue_id, type, priority, payload, tags, crashes, losses + (kind IS NOT NULL AND kind = 'lost')::int AS losses,
           max_retries, created_at, token, retry, run_us, kind, exception,
           message, traceback, signature, title, worker, started_at,
           coalesce(new_seq, seq) AS seq,
           CASE WHEN retry THEN 'retrying'::job_status WHEN due > now() THEN 'scheduled' ELSE 'queued' END AS status,
           CASE WHEN retry OR due > now() OR new_seq IS NOT NULL AND ordering_key IS NOT NULL THEN NULL
                ELSE coalesce(CASE WHEN new_seq IS NULL THEN place ELSE aged_rank(priority, arrival_us, aging_us) END,
                              (127 - priority)::bigint << 45 | coalesce(new_seq, seq)) END AS rank,
           CASE WHEN new_seq IS NULL THEN place
                ELSE aged_rank(priority, CASE WHEN due > now() THEN (extract(epoch FROM due) * 1000000)::bigint ELSE arrival_us END,
                               aging_us) END AS place,
           coalesce(due, run_at) AS run_at,
           retry_count + retry::int AS retry_count,
           coalesce(summary, error) AS error,
           ordering_key, holds AND new_seq IS NULL AS holds, unique_key, unique_seconds
      FROM held
     WHERE (id IN (SELECT id FROM deleted)) IS TRUE
), back AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses,
                      max_retries, last_token, error, created_at, ordering_key, holds, unique_key, unique_seconds, place)
    SELECT id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses, max_retries, token,
           error, created_at, ordering_key, holds, unique_key, unique_seconds, place
      FROM changed
), freed AS (
    DELETE FROM leases WHERE id = ANY (ARRAY(SELECT id FROM changed))
), noted AS (
    INSERT INTO job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at)
    SELECT id, token, retry_count + crashes + losses, kind, exception, message, traceback, signature,
           CASE WHEN retry THEN 'retrying' ELSE 'released' END, worker, started_at
      FROM changed WHERE kind IS NOT NULL
), named AS (
    INSERT INTO error_signatures (signature, title, exception)
    SELECT DISTINCT ON (signature) signature, title, exception FROM changed WHERE kind IS NOT NULL ORDER BY signature
        ON CONFLICT (signature) DO NOTHING
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, run_bucket, n, run_us)
    SELECT queue_id, type, CASE WHEN retry THEN 'retried' ELSE 'released' END,
           width_bucket(run_us - 1, %(bounds)s::bigint[]), count(*), sum(run_us)
      FROM changed GROUP BY 1, 2, 3, 4
    UNION ALL
    SELECT queue_id, type, 'timed_out', -1, count(*), 0 FROM changed WHERE kind = 'timeout' GROUP BY 1, 2
), returned AS (
    INSERT INTO queue_returns (queue_id, band, n)
    SELECT c.queue_id, b.band, count(*)
      FROM changed c CROSS JOIN LATERAL (VALUES (''), (priority_band(c.priority))) AS b (band)
     WHERE c.queue_id = ANY (ARRAY(SELECT id FROM queues WHERE name = ANY (%(limited)s::text[])))
     GROUP BY 1, 2
)
SELECT id::text, token, rank, CASE WHEN status <> 'queued' THEN extract(epoch FROM run_at)::float8 END
  FROM changed
