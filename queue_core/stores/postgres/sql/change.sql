-- name: move
-- Give locked waiting jobs, and dead ones, that are still as they were seen to another queue or priority, and new tokens. Waiting ones arrive
-- there again and keep their states and times; jobs with an ordering key wait for it until ordering/unblock_next. Rewritten like those that
-- settles give back, for a join might compare each with each. A statement of its own, for a lease that was taken while the
-- lock was waited for is only seen by a new one.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(sources)s::int[], %(keys)s::text[])
                  WITH ORDINALITY AS i (id, token, source, key, position)
     ORDER BY id
), waiting AS MATERIALIZED (
    SELECT j.*, i.key, i.position
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM {schema}.jobs j
                          WHERE j.id = i.id AND (i.token IS NULL OR j.last_token = i.token) AND j.queue_id = i.source
                            AND (coalesce(%(queue)s::int, j.queue_id) <> j.queue_id OR coalesce(%(priority)s::smallint, j.priority) <> j.priority)
                            AND (SELECT true FROM {schema}.leases l WHERE l.id = j.id) IS NULL
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(locks)s::text[]))
                            AND (i.key IS NULL OR coalesce(%(queue)s::int, j.queue_id) || ' ' || i.key = ANY (%(locks)s::text[]))
                         OFFSET 0) j
), deleted AS (
    DELETE FROM {schema}.jobs WHERE id = ANY (ARRAY(SELECT id FROM waiting)) RETURNING id
), numbered AS (
    SELECT m.*, nextval('{schema}.job_seq') AS new_seq,
           coalesce((SELECT epoch FROM {schema}.lease_epoch_live), (SELECT epoch FROM {schema}.lease_epoch))::bigint << 40 | nextval('{schema}.lease_seq') AS new_token
      FROM (SELECT *, coalesce(%(queue)s::int, queue_id) AS to_queue, coalesce(%(priority)s::smallint, priority) AS to_priority
              FROM waiting WHERE (id IN (SELECT id FROM deleted)) IS TRUE
             ORDER BY position) m
), ranked AS (
    SELECT n.*, {schema}.aged_rank(n.to_priority, CASE WHEN n.run_at <= now()
                                              THEN a.first_us + row_number() OVER (PARTITION BY n.to_queue ORDER BY n.new_seq) - 1
                                              ELSE (extract(epoch FROM n.run_at) * 1000000)::bigint END, a.aging_us) AS to_aged_rank
      FROM numbered n
      LEFT JOIN (SELECT q.id, i.first_us, i.aging_us
                   FROM unnest(%(aging)s::text[], %(first_us)s::bigint[], %(aging_us)s::bigint[]) AS i (queue, first_us, aging_us)
                   JOIN {schema}.queues q ON q.name = i.queue) a ON a.id = n.to_queue
), written AS (
    INSERT INTO {schema}.jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses,
                      max_retries, last_token, error, created_at, updated_at, ordering_key, admitted, unique_key, unique_seconds, aged_rank)
    SELECT id, to_queue,
           CASE WHEN status = 'queued' AND key IS NULL THEN coalesce(to_aged_rank, (127 - to_priority)::bigint << 45 | new_seq) END,
           new_seq, to_priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses, max_retries, new_token, error,
           created_at, updated_at, key, false, unique_key, unique_seconds, to_aged_rank
      FROM ranked
    RETURNING id, queue_id, rank, priority
), capacity AS (
    INSERT INTO {schema}.capacity_requeued (queue_id, band, n)
    SELECT r.queue_id, b.band, count(*)
      FROM written r CROSS JOIN LATERAL (VALUES (''), ({schema}.priority_band(r.priority))) AS b (band)
     WHERE r.queue_id = ANY (ARRAY(SELECT id FROM {schema}.queues WHERE name = ANY (%(limited)s::text[])))
     GROUP BY 1, 2
), dead AS MATERIALIZED (
    SELECT d.id
      FROM input i
     CROSS JOIN LATERAL (SELECT id FROM {schema}.jobs_dead d
                          WHERE d.id = i.id AND (i.token IS NULL OR d.last_token = i.token) AND d.queue_id = i.source AND d.trashed_at IS NULL
                            AND (coalesce(%(queue)s::int, d.queue_id) <> d.queue_id OR coalesce(%(priority)s::smallint, d.priority) <> d.priority)
                            AND (NOT d.admitted OR d.queue_id || ' ' || d.ordering_key = ANY (%(locks)s::text[]))
                            FOR UPDATE) d
), buried AS (
    UPDATE {schema}.jobs_dead SET queue_id = coalesce(%(queue)s::int, queue_id), priority = coalesce(%(priority)s::smallint, priority), admitted = false,
                         ordering_key = (%(keys)s::text[])[array_position(%(ids)s::uuid[], id)],
                         last_token = coalesce((SELECT epoch FROM {schema}.lease_epoch_live), (SELECT epoch FROM {schema}.lease_epoch))::bigint << 40 | nextval('{schema}.lease_seq')
     WHERE id = ANY (ARRAY(SELECT id FROM dead))
    RETURNING id, queue_id
)
SELECT w.id::text, q.name, w.rank FROM written w JOIN {schema}.queues q ON q.id = w.queue_id
UNION ALL
SELECT b.id::text, q.name, NULL FROM buried b JOIN {schema}.queues q ON q.id = b.queue_id

-- name: target
-- Return the number of a queue.
SELECT id FROM {schema}.queues WHERE name = %(queue)s

-- name: with_rules
-- Return what the rules of queues have to do with an operator's retry of dead and completed jobs: its queue, its ordering key and
-- whether it still holds that, its priority, its unique key where it is one while the job is unfinished, whether the job
-- has that, and that it is to have it where it goes. `every`: also of jobs without any keys.
SELECT f.id::text, q.name, q.id, f.ordering_key, f.admitted, f.priority, CASE WHEN f.unique_seconds IS NULL THEN f.unique_key END,
       f.unique_key IS NOT NULL AND EXISTS (SELECT FROM {schema}.unique_keys k
                                             WHERE k.queue_id = f.queue_id AND k.key = f.unique_key AND k.job_id = f.id
                                               AND k.expires_at = 'infinity'),
       true
  FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token)
 CROSS JOIN LATERAL (SELECT id, queue_id, priority, ordering_key, admitted, unique_key, unique_seconds FROM {schema}.jobs_dead d
                      WHERE d.id = i.id AND (i.token IS NULL OR d.last_token = i.token)
                     UNION ALL
                     -- Found by their ids and then sorted, for another index has this order.
                     (SELECT id, queue_id, priority, ordering_key, false, unique_key, unique_seconds
                        FROM (SELECT * FROM {schema}.job_history h
                               WHERE h.id = i.id AND h.status = 'completed' AND (i.token IS NULL OR h.last_token = i.token)
                                 AND (SELECT true FROM {schema}.jobs_dead d WHERE d.id = i.id) IS NULL
                              OFFSET 0) h
                       ORDER BY finished_at DESC LIMIT 1)
                     OFFSET 0) f
  JOIN {schema}.queues q ON q.id = f.queue_id
 WHERE %(every)s OR f.ordering_key IS NOT NULL OR f.unique_key IS NOT NULL AND f.unique_seconds IS NULL
       OR q.name = ANY (%(aging)s::text[])

-- name: retry
-- Move dead and completed jobs to queued, or to scheduled where they are put off. What is unfinished, or was changed since its
-- token was read, stays as it is. Their order is that of their new arrival; they get new tokens; the crash count is kept, for nothing
-- ever resets it; losses restart at 0. A job with an ordering key waits for it, until ordering/unblock_next, unless it kept the key when it died and stays
-- where it is. `source` and `key`: the queue of a job that rules have to do with, and its ordering key from here on.
WITH input AS MATERIALIZED (
    SELECT i.*
      FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(sources)s::int[], %(keys)s::text[])
           WITH ORDINALITY AS i (id, token, source, key, position)
     WHERE (SELECT true FROM {schema}.jobs j WHERE j.id = i.id) IS NULL
     -- One order of locks, so that two consoles that retry the same jobs do not wait for each other.
     ORDER BY i.id
), dead AS MATERIALIZED (
    SELECT d.*, i.key, i.position
      FROM input i
     CROSS JOIN LATERAL (SELECT id, queue_id, priority, type, payload, tags, headers, crashes, max_retries, error, created_at,
                                admitted AND coalesce(%(queue)s::int, queue_id) = queue_id
                                      AND coalesce(%(priority)s::smallint, priority) = priority AS admitted, unique_key, unique_seconds
                           FROM {schema}.jobs_dead d
                          WHERE d.id = i.id AND (i.token IS NULL OR d.last_token = i.token)
                            AND CASE WHEN i.source IS NULL THEN d.ordering_key IS NULL ELSE d.queue_id = i.source END
                            AND (NOT d.admitted OR d.queue_id || ' ' || d.ordering_key = ANY (%(locks)s::text[]))
                            AND (i.key IS NULL OR coalesce(%(queue)s::int, d.queue_id) || ' ' || i.key = ANY (%(locks)s::text[]))
                            FOR UPDATE) d
), completed AS MATERIALIZED (
    -- An id that was used again after its end is in the history more than once.
    SELECT h.*, i.key, i.position
      FROM input i
     CROSS JOIN LATERAL (SELECT id, finished_at, queue_id, priority, type, payload, tags, headers, crashes, max_retries, error,
                                created_at, unique_key, unique_seconds
                           FROM {schema}.job_history h
                          WHERE h.id = i.id AND h.status = 'completed' AND (i.token IS NULL OR h.last_token = i.token)
                            AND CASE WHEN i.source IS NULL THEN h.ordering_key IS NULL ELSE h.queue_id = i.source END
                            AND (i.key IS NULL OR coalesce(%(queue)s::int, h.queue_id) || ' ' || i.key = ANY (%(locks)s::text[]))
                            AND NOT EXISTS (SELECT FROM {schema}.job_history n WHERE n.id = h.id AND n.finished_at > h.finished_at)
                            FOR UPDATE OF h) h
     WHERE (SELECT true FROM {schema}.jobs_dead d WHERE d.id = i.id) IS NULL
), risen AS (
    DELETE FROM {schema}.jobs_dead WHERE id = ANY (ARRAY(SELECT id FROM dead)) RETURNING id
), again AS (
    DELETE FROM {schema}.job_history
     WHERE id = ANY (ARRAY(SELECT id FROM completed)) AND ((id, finished_at) IN (SELECT id, finished_at FROM completed)) IS TRUE
    RETURNING id
), numbered AS (
    SELECT m.*, nextval('{schema}.job_seq') AS seq,
           coalesce((SELECT epoch FROM {schema}.lease_epoch_live), (SELECT epoch FROM {schema}.lease_epoch))::bigint << 40 | nextval('{schema}.lease_seq') AS new_token,
           %(delay)s::float8 + random() * %(spread)s::float8 AS put_off
      FROM (SELECT id, coalesce(%(queue)s::int, queue_id) AS queue_id, queue_id AS source,
                   coalesce(%(priority)s::smallint, priority) AS priority, type, payload, tags, headers, crashes, max_retries, error,
                   created_at, key, admitted, unique_key, unique_seconds, position
              FROM dead WHERE (id IN (SELECT id FROM risen)) IS TRUE
            UNION ALL
            SELECT id, coalesce(%(queue)s::int, queue_id), queue_id, coalesce(%(priority)s::smallint, priority), type, payload, tags, headers,
                   crashes, max_retries, error, created_at, key, false, unique_key, unique_seconds, position
              FROM completed WHERE (id IN (SELECT id FROM again)) IS TRUE
             ORDER BY position) m
), ranked AS MATERIALIZED (
    SELECT n.*, %(delay)s::float8 <= 0 AND %(spread)s::float8 <= 0 AS at_once,
           {schema}.aged_rank(n.priority, CASE WHEN %(delay)s::float8 <= 0 AND %(spread)s::float8 <= 0
                                      THEN a.first_us + row_number() OVER (PARTITION BY n.queue_id ORDER BY n.seq) - 1
                                      ELSE (extract(epoch FROM now() + make_interval(secs => n.put_off)) * 1000000)::bigint END,
                     a.aging_us) AS aged_rank
      FROM numbered n
      LEFT JOIN (SELECT q.id, i.first_us, i.aging_us
                   FROM unnest(%(aging)s::text[], %(first_us)s::bigint[], %(aging_us)s::bigint[]) AS i (queue, first_us, aging_us)
                   JOIN {schema}.queues q ON q.name = i.queue) a ON a.id = n.queue_id
), requeued AS (
    INSERT INTO {schema}.jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes,
                      max_retries, last_token, error, created_at, ordering_key, admitted, unique_key, unique_seconds, aged_rank)
    SELECT id, queue_id, CASE WHEN at_once AND (key IS NULL OR admitted) THEN coalesce(aged_rank, (127 - priority)::bigint << 45 | seq) END,
           seq, priority, CASE WHEN at_once THEN 'queued'::{schema}.job_status ELSE 'scheduled' END,
           now() + make_interval(secs => put_off), type, payload, tags, headers, 0, crashes, max_retries, new_token, error, created_at,
           key, admitted, unique_key, unique_seconds, aged_rank
      FROM ranked
    RETURNING id, queue_id, rank, priority
), capacity AS (
    INSERT INTO {schema}.capacity_requeued (queue_id, band, n)
    SELECT r.queue_id, b.band, count(*)
      FROM requeued r CROSS JOIN LATERAL (VALUES (''), ({schema}.priority_band(r.priority))) AS b (band)
     WHERE r.queue_id = ANY (ARRAY(SELECT id FROM {schema}.queues WHERE name = ANY (%(limited)s::text[])))
     GROUP BY 1, 2
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT source, type, 'retried_by_operator', count(*) FROM ranked GROUP BY 1, 2
)
SELECT b.id::text, q.name, b.rank FROM requeued b JOIN {schema}.queues q ON q.id = b.queue_id

-- name: movable
-- Return the waiting and dead jobs that have these tokens, each looked up by its id, as change/with_rules does.
SELECT f.id::text, q.name, q.id, f.ordering_key, f.admitted, f.priority,
       CASE WHEN f.unique_seconds IS NULL THEN f.unique_key END,
       f.unique_key IS NOT NULL AND EXISTS (SELECT FROM {schema}.unique_keys k
                                             WHERE k.queue_id = f.queue_id AND k.key = f.unique_key AND k.job_id = f.id
                                               AND k.expires_at = 'infinity'),
       f.waits
  FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token)
 CROSS JOIN LATERAL (SELECT id, queue_id, priority, ordering_key, true AS admitted, unique_key, unique_seconds, true AS waits FROM {schema}.jobs j
                      WHERE j.id = i.id AND (i.token IS NULL OR j.last_token = i.token) AND (SELECT true FROM {schema}.leases l WHERE l.id = j.id) IS NULL
                     UNION ALL
                     SELECT id, queue_id, priority, ordering_key, admitted, unique_key, unique_seconds, false FROM {schema}.jobs_dead d
                      WHERE d.id = i.id AND (i.token IS NULL OR d.last_token = i.token) AND d.trashed_at IS NULL
                     OFFSET 0) f
  JOIN {schema}.queues q ON q.id = f.queue_id
 WHERE coalesce(%(queue)s::text, q.name) <> q.name OR coalesce(%(priority)s::smallint, f.priority) <> f.priority

-- name: keys_of_dead
-- Return the ordering keys that dead jobs hold, each looked up by its id.
SELECT d.id::text, q.name, d.ordering_key
  FROM unnest(%(ids)s::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT * FROM {schema}.jobs_dead d WHERE d.id = i.id OFFSET 0) d
  JOIN {schema}.queues q ON q.id = d.queue_id
 WHERE d.admitted

-- name: delete
-- Move dead jobs to the trash, where none holds its ordering key; those that do, where that key is locked. Not those that were
-- changed since their tokens were read: each change gives a new one.
WITH locked AS MATERIALIZED (
    SELECT d.id
      FROM (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token) ORDER BY id) i
     CROSS JOIN LATERAL (SELECT id FROM {schema}.jobs_dead d
                          WHERE d.id = i.id AND d.trashed_at IS NULL AND (i.token IS NULL OR d.last_token = i.token)
                            AND (NOT d.admitted OR d.queue_id || ' ' || d.ordering_key = ANY (%(locks)s::text[]))
                            FOR UPDATE) d
)
UPDATE {schema}.jobs_dead
   SET trashed_at = now(), admitted = false,
       last_token = coalesce((SELECT epoch FROM {schema}.lease_epoch_live), (SELECT epoch FROM {schema}.lease_epoch))::bigint << 40 | nextval('{schema}.lease_seq')
 WHERE id = ANY (ARRAY(SELECT id FROM locked))
RETURNING id::text

-- name: cancel
-- Move locked waiting jobs to cancelled, and ask the workers of running ones to stop them, but for those that were run again since
-- their tokens were read. A statement of its own, for a lease that was taken while the lock was waited for is only seen by a
-- new one. A waiting job with an ordering key only where that key is locked.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token)
), waiting AS MATERIALIZED (
    SELECT j.id
      FROM input i
     CROSS JOIN LATERAL (SELECT id FROM {schema}.jobs j
                          WHERE j.id = i.id AND (i.token IS NULL OR j.last_token = i.token)
                            AND (SELECT true FROM {schema}.leases l WHERE l.id = j.id) IS NULL
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(locks)s::text[]))
                         OFFSET 0) j
), running AS MATERIALIZED (
    SELECT l.id
      FROM input i
     CROSS JOIN LATERAL (SELECT id FROM {schema}.leases l
                          WHERE l.id = i.id AND (i.token IS NULL OR l.token = i.token) AND NOT l.cancel
                            AND (SELECT true FROM {schema}.jobs j WHERE j.id = l.id)
                         OFFSET 0) l
), removed AS (
    DELETE FROM {schema}.jobs WHERE id = ANY (ARRAY(SELECT id FROM waiting)) RETURNING *
), archived AS (
    INSERT INTO {schema}.job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, headers, retry_count, crashes, losses,
                             max_retries, last_token, error, created_at, ordering_key, unique_key, unique_seconds)
    SELECT id, queue_id, seq, priority, 'cancelled', run_at, type, payload, tags, headers, retry_count, crashes, losses, max_retries,
           last_token, error, created_at, ordering_key, unique_key, unique_seconds
      FROM removed
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'cancelled', count(*) FROM removed GROUP BY queue_id, type
), requested AS (
    UPDATE {schema}.leases SET cancel = true WHERE id = ANY (ARRAY(SELECT id FROM running)) AND NOT cancel RETURNING id
)
SELECT id::text FROM removed UNION ALL SELECT id::text FROM requested

-- name: unique_release
-- Release locked unique keys that these jobs hold for as long as they are unfinished.
DELETE FROM {schema}.unique_keys
 WHERE ctid = ANY (ARRAY(SELECT k.ctid
                           FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(job_id)s::uuid[]) AS i (queue_id, key, job_id)
                          CROSS JOIN LATERAL (SELECT ctid, job_id, expires_at FROM {schema}.unique_keys k
                                               WHERE k.queue_id = i.queue_id AND k.key = i.key OFFSET 0) k
                          WHERE k.job_id = i.job_id AND k.expires_at = 'infinity'))

-- name: put_off
-- Let the leader hear that jobs were put off: they may be due before it looks by itself.
SELECT pg_notify('{channels}_due', '')

-- name: lock_jobs
-- Lock unfinished jobs: from here on none of them is claimed, settled or taken back before this transaction ends.
SELECT id::text FROM {schema}.jobs WHERE id = ANY (%(ids)s::uuid[]) ORDER BY jobs.id FOR UPDATE

-- name: restore
-- Move jobs from the trash back into the DLQ, but for those that were changed since their tokens were read: each
-- change gives a new one.
WITH locked AS MATERIALIZED (
    SELECT d.id
      FROM (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token) ORDER BY id) i
     CROSS JOIN LATERAL (SELECT id FROM {schema}.jobs_dead d
                          WHERE d.id = i.id AND d.trashed_at IS NOT NULL AND (i.token IS NULL OR d.last_token = i.token)
                            FOR UPDATE) d
)
UPDATE {schema}.jobs_dead
   SET trashed_at = NULL, last_token = coalesce((SELECT epoch FROM {schema}.lease_epoch_live), (SELECT epoch FROM {schema}.lease_epoch))::bigint << 40 | nextval('{schema}.lease_seq')
 WHERE id = ANY (ARRAY(SELECT id FROM locked))
RETURNING id::text

-- name: purge
-- Remove jobs in the trash for good, with their attempts and logs; the totals go on counting them. Not those that were changed
-- since their tokens were read.
WITH locked AS MATERIALIZED (
    SELECT d.id
      FROM (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token) ORDER BY id) i
     CROSS JOIN LATERAL (SELECT id FROM {schema}.jobs_dead d
                          WHERE d.id = i.id AND d.trashed_at IS NOT NULL AND (i.token IS NULL OR d.last_token = i.token)
                            FOR UPDATE) d
), removed AS (
    DELETE FROM {schema}.jobs_dead WHERE id = ANY (ARRAY(SELECT id FROM locked)) RETURNING id, queue_id, type
), attempts AS (
    DELETE FROM {schema}.job_attempts WHERE job_id = ANY (ARRAY(SELECT id FROM removed))
), forgotten AS (
    DELETE FROM {schema}.job_logs WHERE job_id = ANY (ARRAY(SELECT id FROM removed))
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'purged', count(*) FROM removed GROUP BY queue_id, type
)
SELECT id::text FROM removed
