-- Move running jobs whose lease still holds to retrying (due after a delay) or back to queued (released), but for those
-- that somebody asked to cancel: they come to settle/cancel_instead.
WITH input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(retry)s::bool[], %(delay)s::float8[], %(run_us)s::bigint[],
                  %(kind)s::text[], %(exception)s::text[], %(message)s::text[], %(traceback)s::text[],
                  %(signature)s::text[], %(title)s::text[], %(summary)s::text[])
           AS i (id, token, retry, delay, run_us, kind, exception, message, traceback, signature, title, summary)
), back AS (
    UPDATE jobs j
       SET last_token = i.token,
           status = CASE WHEN i.retry THEN 'retrying'::job_status ELSE 'queued' END,
           rank = CASE WHEN i.retry THEN NULL ELSE (127 - j.priority)::bigint << 45 | j.seq END,
           run_at = CASE WHEN i.retry THEN now() + make_interval(secs => i.delay) ELSE j.run_at END,
           retry_count = j.retry_count + i.retry::int,
           error = coalesce(i.summary, j.error),
           updated_at = now()
      FROM input i, leases l
     WHERE j.id = i.id AND l.id = i.id AND l.token = i.token AND j.last_token < i.token AND NOT l.cancel
    RETURNING j.id, j.queue_id, j.type, j.rank, j.run_at, j.retry_count, j.crashes, i.token, i.retry, i.run_us, i.kind,
              i.exception, i.message, i.traceback, i.signature, i.title, l.worker, l.started_at
), freed AS (
    DELETE FROM leases l USING back b WHERE l.id = b.id AND l.token = b.token
), noted AS (
    INSERT INTO job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at)
    SELECT id, token, retry_count + crashes, kind, exception, message, traceback, signature,
           CASE WHEN retry THEN 'retrying' ELSE 'released' END, worker, started_at
      FROM back WHERE kind IS NOT NULL
), named AS (
    INSERT INTO error_signatures (signature, title, exception)
    SELECT DISTINCT ON (signature) signature, title, exception FROM back WHERE kind IS NOT NULL ORDER BY signature
        ON CONFLICT (signature) DO NOTHING
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, run_bucket, n, run_us)
    SELECT queue_id, type, CASE WHEN retry THEN 'retried' ELSE 'released' END,
           width_bucket(run_us - 1, %(bounds)s::bigint[]), count(*), sum(run_us)
      FROM back GROUP BY 1, 2, 3, 4
    UNION ALL
    SELECT queue_id, type, 'timed_out', -1, count(*), 0 FROM back WHERE kind = 'timeout' GROUP BY 1, 2
)
SELECT id::text, token, CASE WHEN retry THEN NULL ELSE rank END,
       CASE WHEN retry THEN extract(epoch FROM run_at)::float8 END
  FROM back
