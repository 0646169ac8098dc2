-- name: finish
-- Move running jobs whose lease still holds to completed or cancelled: jobs first, then leases, then the history.
-- A job with an ordering key only where that key is locked: ordering/unblock_next releases it in the same transaction.
-- No joins: independent of the statistics, each row is looked up by its id (LATERAL with OFFSET 0, = ANY, a hashed IN).
WITH input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(status)s::text[], %(run_us)s::bigint[], %(result)s::text[])
           AS i (id, token, outcome, run_us, result)
), held AS MATERIALIZED (
    SELECT j.*, i.token, i.outcome, i.run_us, i.result, l.worker, l.started_at, l.release
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM {schema}.leases l WHERE l.id = i.id AND l.token = i.token OFFSET 0) l
     CROSS JOIN LATERAL (SELECT * FROM {schema}.jobs j
                          WHERE j.id = i.id AND j.last_token < i.token
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(locks)s::text[]))
                         OFFSET 0) j
), deleted AS (
    DELETE FROM {schema}.jobs
     WHERE id = ANY (ARRAY(SELECT id FROM held))
       -- The fence, for a row that changed while its lock was waited for: the transaction that ended its attempt has written that
       -- attempt's own token here, which is no job's last one in this batch.
       AND last_token = ANY (ARRAY(SELECT DISTINCT last_token FROM held))
    RETURNING id
), removed AS MATERIALIZED (
    SELECT * FROM held WHERE (id IN (SELECT id FROM deleted)) IS TRUE
), freed AS (
    DELETE FROM {schema}.leases WHERE id = ANY (ARRAY(SELECT id FROM removed))
), archived AS (
    INSERT INTO {schema}.job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses,
                             max_retries, last_token, error, result, worker, created_at, started_at, ordering_key,
                             unique_key, unique_seconds, release)
    SELECT id, queue_id, seq, priority, outcome::{schema}.job_status, run_at, type, payload, tags, headers, retry_count, crashes, losses,
           max_retries, token, error, result, worker, created_at, started_at, ordering_key, unique_key, unique_seconds, release
      FROM removed
), measured AS (
    SELECT queue_id, type, outcome, release, run_us,
           greatest(0, extract(epoch FROM started_at - run_at) * 1000000)::bigint AS wait_us
      FROM removed
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, release, wait_bucket, run_bucket, n, wait_us, run_us)
    SELECT queue_id, type, outcome, release, width_bucket(wait_us - 1, %(bounds)s::bigint[]),
           width_bucket(run_us - 1, %(bounds)s::bigint[]), count(*), sum(wait_us), sum(run_us)
      FROM measured
     GROUP BY 1, 2, 3, 4, 5, 6
)
SELECT id::text, token FROM removed

-- name: requeue
-- Move running jobs whose lease still holds to retrying (due after a delay) or back (released): to queued at their rank,
-- or requeued, as jobs that arrive now, to queued or scheduled; except jobs with a cancel request: they are left to
-- settle/cancel_instead. Locks, fence and look-ups are those of settle/finish; the row is rewritten. A requeued job
-- releases its ordering key and waits for it again.
WITH input AS MATERIALIZED (
    SELECT *, CASE WHEN to_back THEN nextval('{schema}.job_seq') END AS new_seq,
           CASE WHEN retry THEN now() + make_interval(secs => delay)
                WHEN to_back THEN greatest(now(), coalesce(to_timestamp(run_at), now() + make_interval(secs => delay))) END AS due
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(retry)s::bool[], %(to_back)s::bool[], %(delay)s::float8[],
                  %(run_at)s::float8[], %(arrival_us)s::bigint[], %(aging_us)s::bigint[], %(run_us)s::bigint[],
                  %(kind)s::text[], %(exception)s::text[], %(message)s::text[], %(traceback)s::text[],
                  %(signature)s::text[], %(title)s::text[], %(summary)s::text[])
           AS i (id, token, retry, to_back, delay, run_at, arrival_us, aging_us, run_us, kind, exception, message, traceback,
                 signature, title, summary)
), held AS MATERIALIZED (
    SELECT j.*, i.token, i.retry, i.new_seq, i.due, i.arrival_us, i.aging_us, i.run_us, i.kind, i.exception, i.message, i.traceback, i.signature,
           i.title, i.summary, l.worker, l.started_at, l.release
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM {schema}.leases l WHERE l.id = i.id AND l.token = i.token AND NOT l.cancel OFFSET 0) l
     CROSS JOIN LATERAL (SELECT * FROM {schema}.jobs j
                          WHERE j.id = i.id AND j.last_token < i.token
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(locks)s::text[]))
                         OFFSET 0) j
), deleted AS (
    DELETE FROM {schema}.jobs
     WHERE id = ANY (ARRAY(SELECT id FROM held)) AND last_token = ANY (ARRAY(SELECT DISTINCT last_token FROM held))
    RETURNING id
), changed AS MATERIALIZED (
    SELECT id, queue_id, type, priority, payload, tags, headers, crashes, losses + (kind IS NOT NULL AND kind = 'lost')::int AS losses,
           max_retries, created_at, token, retry, run_us, kind, exception,
           message, traceback, signature, title, worker, started_at, release,
           coalesce(new_seq, seq) AS seq,
           CASE WHEN retry THEN 'retrying'::{schema}.job_status WHEN due > now() THEN 'scheduled' ELSE 'queued' END AS status,
           CASE WHEN retry OR due > now() OR new_seq IS NOT NULL AND ordering_key IS NOT NULL THEN NULL
                ELSE coalesce(CASE WHEN new_seq IS NULL THEN aged_rank ELSE {schema}.aged_rank(priority, arrival_us, aging_us) END,
                              (127 - priority)::bigint << 45 | coalesce(new_seq, seq)) END AS rank,
           CASE WHEN new_seq IS NULL THEN aged_rank
                ELSE {schema}.aged_rank(priority, CASE WHEN due > now() THEN (extract(epoch FROM due) * 1000000)::bigint ELSE arrival_us END,
                               aging_us) END AS aged_rank,
           coalesce(due, run_at) AS run_at,
           retry_count + retry::int AS retry_count,
           coalesce(summary, error) AS error,
           ordering_key, admitted AND new_seq IS NULL AS admitted, unique_key, unique_seconds
      FROM held
     WHERE (id IN (SELECT id FROM deleted)) IS TRUE
), requeued AS (
    INSERT INTO {schema}.jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses,
                      max_retries, last_token, error, created_at, ordering_key, admitted, unique_key, unique_seconds, aged_rank)
    SELECT id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses, max_retries, token,
           error, created_at, ordering_key, admitted, unique_key, unique_seconds, aged_rank
      FROM changed
), freed AS (
    DELETE FROM {schema}.leases WHERE id = ANY (ARRAY(SELECT id FROM changed))
), attempts AS (
    INSERT INTO {schema}.job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at, release)
    SELECT id, token, retry_count + crashes + losses, kind, exception, message, traceback, signature,
           CASE WHEN retry THEN 'retrying' ELSE 'released' END, worker, started_at, release
      FROM changed WHERE kind IS NOT NULL
), signatures AS (
    INSERT INTO {schema}.error_signatures (signature, title, exception)
    SELECT DISTINCT ON (signature) signature, title, exception FROM changed WHERE kind IS NOT NULL ORDER BY signature
        ON CONFLICT (signature) DO NOTHING
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, run_bucket, n, run_us)
    SELECT queue_id, type, CASE WHEN retry THEN 'retried' ELSE 'released' END,
           width_bucket(run_us - 1, %(bounds)s::bigint[]), count(*), sum(run_us)
      FROM changed GROUP BY 1, 2, 3, 4
    UNION ALL
    SELECT queue_id, type, 'timed_out', -1, count(*), 0 FROM changed WHERE kind = 'timeout' GROUP BY 1, 2
), capacity AS (
    INSERT INTO {schema}.capacity_requeued (queue_id, band, n)
    SELECT c.queue_id, b.band, count(*)
      FROM changed c CROSS JOIN LATERAL (VALUES (''), ({schema}.priority_band(c.priority))) AS b (band)
     WHERE c.queue_id = ANY (ARRAY(SELECT id FROM {schema}.queues WHERE name = ANY (%(limited)s::text[])))
     GROUP BY 1, 2
)
SELECT id::text, token, rank, CASE WHEN status <> 'queued' THEN extract(epoch FROM run_at)::float8 END
  FROM changed

-- name: bury
-- Move running jobs whose lease still holds to dead. Locks, fence and look-ups are those of settle/finish.
WITH input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(run_us)s::bigint[], %(kind)s::text[], %(exception)s::text[],
                  %(message)s::text[], %(traceback)s::text[], %(signature)s::text[], %(title)s::text[], %(summary)s::text[])
           AS i (id, token, run_us, kind, exception, text, traceback, signature, title, summary)
), held AS MATERIALIZED (
    SELECT j.*, i.token, i.run_us, i.kind, i.exception, i.text, i.traceback, i.signature, i.title, i.summary, l.worker,
           l.started_at, l.progress, l.message, l.release
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM {schema}.leases l WHERE l.id = i.id AND l.token = i.token OFFSET 0) l
     CROSS JOIN LATERAL (SELECT * FROM {schema}.jobs j
                          WHERE j.id = i.id AND j.last_token < i.token
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(locks)s::text[]))
                         OFFSET 0) j
), deleted AS (
    DELETE FROM {schema}.jobs
     WHERE id = ANY (ARRAY(SELECT id FROM held)) AND last_token = ANY (ARRAY(SELECT DISTINCT last_token FROM held))
    RETURNING id
), removed AS MATERIALIZED (
    SELECT * FROM held WHERE (id IN (SELECT id FROM deleted)) IS TRUE
), freed AS (
    DELETE FROM {schema}.leases WHERE id = ANY (ARRAY(SELECT id FROM removed))
), buried AS (
    INSERT INTO {schema}.jobs_dead (id, queue_id, seq, priority, run_at, type, payload, tags, headers, retry_count, crashes, losses, max_retries,
                           last_token, error, signature, kind, progress, message, worker, created_at, started_at,
                           ordering_key, admitted, unique_key, unique_seconds, release)
    SELECT id, queue_id, seq, priority, run_at, type, payload, tags, headers, retry_count, crashes + (kind = 'poison')::int,
           losses + (kind = 'lost')::int, max_retries, token, summary, signature, kind, progress, message, worker, created_at, started_at,
           ordering_key, admitted AND queue_id = ANY (ARRAY(SELECT id FROM {schema}.queues WHERE name = ANY (%(blocking)s::text[]))),
           unique_key, unique_seconds, release
      FROM removed
), attempts AS (
    INSERT INTO {schema}.job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at, release)
    SELECT id, token, retry_count + crashes + losses + 1, kind, exception, text, traceback, signature, 'dead',
           worker, started_at, release
      FROM removed
), signatures AS (
    INSERT INTO {schema}.error_signatures (signature, title, exception)
    SELECT DISTINCT ON (signature) signature, title, exception FROM removed ORDER BY signature
        ON CONFLICT (signature) DO NOTHING
), measured AS (
    SELECT queue_id, type, signature, kind, release, run_us, started_at,
           greatest(0, extract(epoch FROM started_at - run_at) * 1000000)::bigint AS wait_us
      FROM removed
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, signature, release, wait_bucket, run_bucket, n, wait_us, run_us, started_at)
    SELECT queue_id, type, 'dead', signature, release, width_bucket(wait_us - 1, %(bounds)s::bigint[]),
           width_bucket(run_us - 1, %(bounds)s::bigint[]), count(*), sum(wait_us), sum(run_us), max(started_at)
      FROM measured GROUP BY 1, 2, 3, 4, 5, 6, 7
    UNION ALL
    SELECT queue_id, type, 'timed_out', '', 0, -1, -1, count(*), 0, 0, NULL FROM measured WHERE kind = 'timeout' GROUP BY 1, 2
)
SELECT id::text, token FROM removed

-- name: reclaim
-- Take jobs back whose lease expired: queued again with one loss more, buried as lost at their bound, or cancelled where
-- it was requested. A job that had not begun is not blamed. Each row is looked up by its id, independent of the statistics;
-- requeued ones are rewritten. A job that releases an ordering key is only named, as one without a token, unless that
-- key is locked.
WITH expired AS MATERIALIZED (
    SELECT l.* FROM unnest(%(first_rows)s::tid[], %(last_rows)s::tid[]) AS part (first_row, last_row)
     CROSS JOIN LATERAL (
           SELECT id, token, worker, started_at, progress, message, cancel, started, release FROM {schema}.leases
            WHERE expires_at < now() AND ctid BETWEEN part.first_row AND part.last_row
           OFFSET 0) l
    UNION ALL
    SELECT id, token, worker, started_at, progress, message, cancel, started, release FROM {schema}.leases
     WHERE expires_at < now() AND id = ANY (%(ids)s::uuid[])
     LIMIT %(limit)s
), locked AS MATERIALIZED (
    SELECT j.*, e.token, e.worker, e.started_at, e.progress, e.message, e.cancel, e.started, e.release,
           CASE WHEN e.started AND j.losses + 1 >= %(bound)s THEN 'lost' WHEN e.cancel THEN 'cancelled' ELSE 'requeued' END AS fate
      FROM expired e
     CROSS JOIN LATERAL (SELECT * FROM {schema}.jobs j WHERE j.id = e.id AND j.last_token < e.token FOR UPDATE SKIP LOCKED) j
), free AS MATERIALIZED (
    SELECT * FROM locked
     WHERE ordering_key IS NULL OR fate = 'requeued' OR queue_id || ' ' || ordering_key = ANY (%(locks)s::text[])
), freed AS (
    -- A heartbeat may have renewed it meanwhile.
    DELETE FROM {schema}.leases WHERE id = ANY (ARRAY(SELECT id FROM free)) AND expires_at < now() RETURNING id
), ended AS MATERIALIZED (
    SELECT * FROM free
     WHERE (id IN (SELECT id FROM freed)) IS TRUE
), deleted AS (
    DELETE FROM {schema}.jobs WHERE id = ANY (ARRAY(SELECT id FROM ended)) RETURNING id
), requeued AS MATERIALIZED (
    SELECT id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses + started::int AS losses,
           max_retries, created_at, token, worker, started_at, started, release, ordering_key, admitted, unique_key, unique_seconds, aged_rank,
           CASE WHEN started THEN %(exception)s || ': ' || %(loss_text)s || ' (last: ' || worker || ')' ELSE error END AS error
      FROM ended
     WHERE fate = 'requeued' AND (id IN (SELECT id FROM deleted)) IS TRUE
), written AS (
    INSERT INTO {schema}.jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses,
                      max_retries, last_token, error, created_at, ordering_key, admitted, unique_key, unique_seconds, aged_rank)
    SELECT id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses, max_retries,
           token, error, created_at, ordering_key, admitted, unique_key, unique_seconds, aged_rank
      FROM requeued
), capacity AS (
    INSERT INTO {schema}.capacity_requeued (queue_id, band, n)
    SELECT r.queue_id, b.band, count(*)
      FROM requeued r CROSS JOIN LATERAL (VALUES (''), ({schema}.priority_band(r.priority))) AS b (band)
     WHERE r.queue_id = ANY (ARRAY(SELECT id FROM {schema}.queues WHERE name = ANY (%(limited)s::text[])))
     GROUP BY 1, 2
), stopped AS (
    SELECT * FROM ended WHERE fate = 'cancelled'
), removed AS (
    SELECT * FROM ended WHERE fate = 'lost'
), archived AS (
    INSERT INTO {schema}.job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses,
                             max_retries, last_token, error, worker, created_at, started_at, ordering_key, unique_key,
                             unique_seconds, release)
    SELECT id, queue_id, seq, priority, 'cancelled', run_at, type, payload, tags, headers, retry_count, crashes, losses + started::int, max_retries,
           token, CASE WHEN started THEN %(exception)s || ': ' || %(loss_text)s || ' (last: ' || worker || ')' ELSE error END,
           -- One that had not begun leaves no attempt: settled_already would take this for an end that its worker stored.
           CASE WHEN started THEN worker END, created_at, started_at, ordering_key, unique_key, unique_seconds, release
      FROM stopped
), buried AS (
    INSERT INTO {schema}.jobs_dead (id, queue_id, seq, priority, run_at, type, payload, tags, headers, retry_count, crashes, losses, max_retries,
                           last_token, error, signature, kind, progress, message, worker, created_at, started_at,
                           ordering_key, admitted, unique_key, unique_seconds, release)
    SELECT id, queue_id, seq, priority, run_at, type, payload, tags, headers, retry_count, crashes, losses + 1, max_retries,
           token, %(exception)s || ': ' || %(lost_text)s || ' (last: ' || worker || ')', %(lost_signature)s, 'lost', progress, message, worker,
           created_at, started_at, ordering_key,
           admitted AND queue_id = ANY (ARRAY(SELECT id FROM {schema}.queues WHERE name = ANY (%(blocking)s::text[]))), unique_key, unique_seconds,
           release
      FROM removed
), signatures AS (
    INSERT INTO {schema}.error_signatures (signature, title, exception)
    SELECT %(lost_signature)s, %(lost_title)s, %(exception)s FROM removed LIMIT 1
        ON CONFLICT (signature) DO NOTHING
), attempts AS (
    INSERT INTO {schema}.job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at, release)
    SELECT id, token, retry_count + crashes + losses, 'lost', %(exception)s, %(loss_text)s || ' (last: ' || worker || ')', '',
           %(loss_signature)s, 'crashed', worker, started_at, release
      FROM requeued WHERE started
    UNION ALL
    SELECT id, token, retry_count + crashes + losses + 1, 'lost', %(exception)s, %(loss_text)s || ' (last: ' || worker || ')', '',
           %(loss_signature)s, 'crashed', worker, started_at, release
      FROM stopped WHERE started
    UNION ALL
    SELECT id, token, retry_count + crashes + losses + 1, 'lost', %(exception)s, %(lost_text)s || ' (last: ' || worker || ')', '',
           %(lost_signature)s, 'crashed', worker, started_at, release
      FROM removed
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, signature, release, n, started_at)
    SELECT queue_id, type, CASE WHEN started THEN 'crashed' ELSE 'released' END, '', 0, count(*), NULL::timestamptz FROM requeued GROUP BY 1, 2, 3
    UNION ALL
    SELECT queue_id, type, 'crashed', '', 0, count(*), NULL FROM removed GROUP BY 1, 2
    UNION ALL
    SELECT queue_id, type, 'dead', %(lost_signature)s, release, count(*), max(started_at) FROM removed GROUP BY 1, 2, release
    UNION ALL
    SELECT queue_id, type, o.outcome, '', 0, count(*), NULL FROM stopped CROSS JOIN (VALUES ('crashed'), ('cancelled')) AS o (outcome)
     WHERE started OR o.outcome = 'cancelled' GROUP BY 1, 2, 3
)
SELECT b.id::text, q.name, b.type, b.token, b.worker, b.losses, b.rank, false, b.started, b.ordering_key FROM requeued b JOIN {schema}.queues q ON q.id = b.queue_id
UNION ALL
SELECT g.id::text, q.name, g.type, g.token, g.worker, g.losses + 1, NULL, false, true, g.ordering_key FROM removed g JOIN {schema}.queues q ON q.id = g.queue_id
UNION ALL
SELECT s.id::text, q.name, s.type, s.token, s.worker, s.losses + s.started::int, NULL, true, s.started, s.ordering_key FROM stopped s JOIN {schema}.queues q ON q.id = s.queue_id
UNION ALL
SELECT l.id::text, q.name, l.type, NULL, l.worker, l.losses, NULL, false, l.started, l.ordering_key FROM locked l JOIN {schema}.queues q ON q.id = l.queue_id
 WHERE (l.id IN (SELECT id FROM free)) IS NOT TRUE

-- name: cancel_instead
-- Cancel jobs whose attempt ended without a result, when it was requested while they ran: the request came too late for
-- this attempt and must not come too early for another one.
WITH input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(retry)s::bool[], %(run_us)s::bigint[], %(kind)s::text[],
                  %(exception)s::text[], %(message)s::text[], %(traceback)s::text[], %(signature)s::text[], %(title)s::text[],
                  %(summary)s::text[])
           AS i (id, token, retry, run_us, kind, exception, message, traceback, signature, title, summary)
), held AS MATERIALIZED (
    SELECT j.*, i.token, i.retry, i.run_us, i.kind, i.exception, i.message, i.traceback, i.signature, i.title, i.summary, l.worker,
           l.started_at, l.release
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM {schema}.leases l WHERE l.id = i.id AND l.token = i.token AND l.cancel OFFSET 0) l
     CROSS JOIN LATERAL (SELECT * FROM {schema}.jobs j
                          WHERE j.id = i.id AND j.last_token < i.token
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(locks)s::text[]))
                         OFFSET 0) j
), deleted AS (
    DELETE FROM {schema}.jobs
     WHERE id = ANY (ARRAY(SELECT id FROM held)) AND last_token = ANY (ARRAY(SELECT DISTINCT last_token FROM held))
    RETURNING id
), removed AS MATERIALIZED (
    SELECT * FROM held WHERE (id IN (SELECT id FROM deleted)) IS TRUE
), freed AS (
    DELETE FROM {schema}.leases WHERE id = ANY (ARRAY(SELECT id FROM removed))
), archived AS (
    INSERT INTO {schema}.job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses,
                             max_retries, last_token, error, worker, created_at, started_at, ordering_key, unique_key,
                             unique_seconds, release)
    SELECT id, queue_id, seq, priority, 'cancelled', run_at, type, payload, tags, headers, retry_count, crashes,
           losses + (kind IS NOT NULL AND kind = 'lost')::int, max_retries, token,
           coalesce(summary, error), worker, created_at, started_at, ordering_key, unique_key, unique_seconds, release
      FROM removed
), attempts AS (
    INSERT INTO {schema}.job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at, release)
    SELECT id, token, retry_count + crashes + losses + 1, kind, exception, message, traceback, signature,
           CASE WHEN retry THEN 'retrying' ELSE 'released' END, worker, started_at, release
      FROM removed WHERE kind IS NOT NULL
), signatures AS (
    INSERT INTO {schema}.error_signatures (signature, title, exception)
    SELECT DISTINCT ON (signature) signature, title, exception FROM removed WHERE kind IS NOT NULL ORDER BY signature
        ON CONFLICT (signature) DO NOTHING
), measured AS (
    SELECT queue_id, type, kind, run_us, greatest(0, extract(epoch FROM started_at - run_at) * 1000000)::bigint AS wait_us
      FROM removed
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us)
    SELECT queue_id, type, 'cancelled', width_bucket(wait_us - 1, %(bounds)s::bigint[]),
           width_bucket(run_us - 1, %(bounds)s::bigint[]), count(*), sum(wait_us), sum(run_us)
      FROM measured GROUP BY 1, 2, 4, 5
    UNION ALL
    SELECT queue_id, type, 'timed_out', -1, -1, count(*), 0, 0 FROM measured WHERE kind = 'timeout' GROUP BY 1, 2
)
SELECT id::text, token FROM removed

-- name: settled_already
-- Return which refused outcomes were in fact written before, by a settle whose reply was lost on the way. What else may have
-- ended an attempt under this token (a reclaim, an operator) leaves other traces.
SELECT i.id::text, i.token,
       -- cancelled instead of retried
       i.kind = 'retrying' AND EXISTS (
           SELECT FROM {schema}.job_history h
            WHERE h.id = i.id AND h.last_token = i.token AND h.status = 'cancelled' AND h.worker IS NOT NULL)
  FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(kind)s::text[]) AS i (id, token, kind)
 WHERE CASE
       WHEN i.kind IN ('retrying', 'dead') THEN EXISTS (
            SELECT FROM {schema}.job_attempts a WHERE a.job_id = i.id AND a.token = i.token AND a.outcome = i.kind)
       WHEN i.kind = 'released' THEN
            (EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = i.id AND j.last_token = i.token AND j.status IN ('queued', 'scheduled'))
             -- cancelled since, as it waited: a lease that is cancelled with its end leaves the time at which that began
             OR EXISTS (SELECT FROM {schema}.job_history h
                         WHERE h.id = i.id AND h.last_token = i.token AND h.status = 'cancelled' AND h.started_at IS NULL))
            AND NOT EXISTS (SELECT FROM {schema}.job_attempts a WHERE a.job_id = i.id AND a.token = i.token AND a.outcome <> 'released')
       ELSE EXISTS (
            SELECT FROM {schema}.job_history h
             WHERE h.id = i.id AND h.last_token = i.token AND h.status::text = i.kind AND h.worker IS NOT NULL)
            AND NOT EXISTS (SELECT FROM {schema}.job_attempts a WHERE a.job_id = i.id AND a.token = i.token)
       END
