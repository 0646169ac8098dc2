-- name: arrivals_count
-- Let jobs arrive in queues with aging, together and each later than all before; returns the first arrival of each queue.
INSERT INTO {schema}.queue_arrivals AS a (queue_id, last_us, n)
SELECT queue_id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + n - 1, n
  FROM (SELECT q.id AS queue_id, i.n
          FROM unnest(%(queue)s::text[], %(n)s::int[]) AS i (queue, n)
         CROSS JOIN LATERAL (SELECT id FROM {schema}.queues q WHERE q.name = i.queue OFFSET 0) q
         ORDER BY q.id) i
    ON CONFLICT (queue_id) DO UPDATE SET last_us = greatest(a.last_us, excluded.last_us - excluded.n) + excluded.n, n = excluded.n
RETURNING (SELECT name FROM {schema}.queues q WHERE q.id = a.queue_id), last_us - n + 1

-- name: unblock_next
-- Release the next jobs of ordering keys, by their arrival, as many as may be under way; unused locks are deleted. The
-- keys were locked by a statement before this one, so that all admitted and all waiting jobs are seen. Their ids are kept for a claim
-- behind this one, which may travel in the same message. Up to `low_watermark` in the
-- order of arrival a key has no job, unless one may have returned there: then all of it is read (`whole`).
WITH wanted AS MATERIALIZED (
    SELECT g.*, coalesce((SELECT o.low_watermark FROM {schema}.ordering_locks o WHERE o.queue_id = g.queue_id AND o.key = g.key AND NOT %(whole)s), 0) AS low_watermark
      FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(capacity)s::int[]) WITH ORDINALITY AS g (queue_id, key, capacity, position)
), ordering AS MATERIALIZED (
    SELECT g.*, g.capacity
           - (SELECT count(*) FROM (SELECT FROM {schema}.jobs j
                                     WHERE j.queue_id = g.queue_id AND j.ordering_key = g.key AND j.admitted
                                       AND j.status = ANY ('{queued,retrying,scheduled}'::{schema}.job_status[]) AND j.seq > g.low_watermark
                                     LIMIT g.capacity) AS h)
           - (SELECT count(*) FROM (SELECT FROM {schema}.jobs_dead d
                                     WHERE d.queue_id = g.queue_id AND d.ordering_key = g.key AND d.admitted LIMIT g.capacity) AS h) AS free
      FROM wanted g
), next_jobs AS MATERIALIZED (
    SELECT t.id, g.position
      FROM ordering g
     CROSS JOIN LATERAL (SELECT j.id FROM {schema}.jobs j
                          WHERE j.queue_id = g.queue_id AND j.ordering_key = g.key AND NOT j.admitted AND j.status = 'queued'
                            AND j.seq > g.low_watermark
                          ORDER BY j.seq
                          LIMIT greatest(0, g.free)
                            FOR NO KEY UPDATE) t
), unblocked AS (
    UPDATE {schema}.jobs SET admitted = true, rank = coalesce(aged_rank, (127 - priority)::bigint << 45 | seq)
     WHERE id = ANY (ARRAY(SELECT id FROM next_jobs))
    RETURNING id, queue_id, ordering_key, rank
), unused AS (
    DELETE FROM {schema}.ordering_locks
     WHERE ctid = ANY (ARRAY(SELECT o.ctid
                               FROM ordering g
                              CROSS JOIN LATERAL (SELECT ctid, low_watermark FROM {schema}.ordering_locks o
                                                   WHERE o.queue_id = g.queue_id AND o.key = g.key OFFSET 0) o
                              WHERE o.low_watermark = 0 AND g.free = g.capacity AND (g.position IN (SELECT position FROM next_jobs)) IS NOT TRUE))
), reset AS (
    UPDATE {schema}.ordering_locks SET low_watermark = 0
     WHERE ctid = ANY (ARRAY(SELECT o.ctid
                               FROM ordering g
                              CROSS JOIN LATERAL (SELECT ctid, low_watermark FROM {schema}.ordering_locks o
                                                   WHERE o.queue_id = g.queue_id AND o.key = g.key OFFSET 0) o
                              WHERE %(whole)s AND o.low_watermark > 0))
)
SELECT u.queue_id, u.ordering_key, u.id::text, u.rank
  FROM unblocked u
 CROSS JOIN (SELECT set_config('jobs.unblocked', string_agg(id::text, ','), true) FROM unblocked OFFSET 0) kept
 ORDER BY u.rank

-- name: lock_soon
-- Lock ordering keys like ordering/lock, but do not wait for long, neither here nor later in this transaction.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
), wanted AS MATERIALIZED (
    SELECT DISTINCT i.queue, q.id, i.key
      FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
     CROSS JOIN LATERAL (SELECT id FROM {schema}.queues q WHERE q.name = i.queue OFFSET 0) q
), locked AS (
    -- The condition is never true, but the row that it is asked of is locked.
    INSERT INTO {schema}.ordering_locks (queue_id, key)
    SELECT id, key FROM wanted ORDER BY id, key COLLATE "C"
        ON CONFLICT (queue_id, key) DO UPDATE SET key = excluded.key WHERE false
)
SELECT DISTINCT queue, id FROM wanted, patience

-- name: make_locks
-- Create missing locks of ordering keys, but do not wait long for a transaction that is creating one of them. Existing ones are left out: an
-- insert would wait for a transaction that is changing one.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
)
INSERT INTO {schema}.ordering_locks (queue_id, key)
SELECT DISTINCT q.id, i.key
  FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
 CROSS JOIN LATERAL (SELECT id FROM {schema}.queues q WHERE q.name = i.queue OFFSET 0) q
 CROSS JOIN patience
 WHERE (SELECT true FROM {schema}.ordering_locks o WHERE o.queue_id = q.id AND o.key = i.key) IS NULL
 ORDER BY 1, 2
    ON CONFLICT (queue_id, key) DO NOTHING

-- name: lock_free
-- Lock the ordering keys that no other transaction has locked, without waiting; returns all and which were locked.
SELECT i.queue, i.id, i.key, o.key IS NOT NULL
  FROM (SELECT DISTINCT i.queue, q.id, i.key
          FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
         CROSS JOIN LATERAL (SELECT id FROM {schema}.queues q WHERE q.name = i.queue OFFSET 0) q) i
  LEFT JOIN LATERAL (SELECT o.key FROM {schema}.ordering_locks o
                      WHERE o.queue_id = i.id AND o.key = i.key FOR UPDATE SKIP LOCKED) o ON true

-- name: add_pending
-- Store ordering keys that are released while other transactions have them locked, for the leader.
INSERT INTO {schema}.ordering_pending (queue_id, key) SELECT * FROM unnest(%(queue_id)s::int[], %(key)s::text[])

-- name: raise_watermark
-- Store up to which position in the order of arrival keys have no admitted and no waiting job, so that the next read leaves out
-- what ended before. The keys are locked: a job that waits from now on arrives behind it, or its transaction reads the whole key.
UPDATE {schema}.ordering_locks o
   SET low_watermark = coalesce(
       (SELECT min(f.seq)
          FROM (VALUES (true, 'queued'::{schema}.job_status), (true, 'retrying'), (true, 'scheduled'), (false, 'queued')) AS v (admitted, status)
         CROSS JOIN LATERAL (SELECT j.seq FROM {schema}.jobs j
                              WHERE j.queue_id = o.queue_id AND j.ordering_key = o.key AND j.admitted = v.admitted AND j.status = v.status
                                AND j.seq > o.low_watermark
                              ORDER BY j.seq LIMIT 1) f) - 1,
       (SELECT last_value FROM {schema}.job_seq))
 WHERE ctid = ANY (ARRAY(SELECT g.ctid
                           FROM unnest(%(queue_id)s::int[], %(key)s::text[]) AS i (queue_id, key)
                          CROSS JOIN LATERAL (SELECT ctid FROM {schema}.ordering_locks g
                                               WHERE g.queue_id = i.queue_id AND g.key = i.key OFFSET 0) g))

-- name: lock
-- Lock ordering keys, creating missing locks; returns the numbers of their queues. One order for
-- all transactions, and always before the rows of jobs, which prevents deadlocks.
WITH wanted AS MATERIALIZED (
    SELECT DISTINCT i.queue, q.id, i.key
      FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
     CROSS JOIN LATERAL (SELECT id FROM {schema}.queues q WHERE q.name = i.queue OFFSET 0) q
), locked AS (
    -- The condition is never true, but the row that it is asked of is locked.
    INSERT INTO {schema}.ordering_locks (queue_id, key)
    SELECT id, key FROM wanted ORDER BY id, key COLLATE "C"
        ON CONFLICT (queue_id, key) DO UPDATE SET key = excluded.key WHERE false
)
SELECT DISTINCT queue, id FROM wanted

-- name: promote_keyed
-- Move due scheduled and retrying jobs to queued, to wait for their ordering keys, which are locked or among ordering_pending. A row that
-- another transaction has locked is left to a later round. Each is looked up by its id alone, independent of the statistics of due jobs.
WITH due AS MATERIALIZED (
    SELECT j.id
      FROM unnest(%(ids)s::uuid[]) AS i (id)
     CROSS JOIN LATERAL (SELECT id, queue_id, ordering_key, status, run_at, admitted FROM {schema}.jobs WHERE id = i.id OFFSET 0
                            FOR NO KEY UPDATE SKIP LOCKED) j
     WHERE j.status IN ('scheduled', 'retrying') AND j.run_at <= now() AND NOT j.admitted
       AND j.queue_id || ' ' || j.ordering_key = ANY (%(locks)s::text[])
)
UPDATE {schema}.jobs SET status = 'queued', updated_at = now() WHERE id = ANY (ARRAY(SELECT id FROM due))

-- name: clear_pending
-- Remove locked keys from those that the leader has to look at: the next statement unblocks their jobs.
DELETE FROM {schema}.ordering_pending
 WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM {schema}.ordering_pending c
                          WHERE c.queue_id || ' ' || c.key = ANY (%(locks)s::text[])))

-- name: isolation
-- Return how a transaction is kept apart from others.
SELECT current_setting('transaction_isolation')

-- name: keys_of_unfinished
-- Return the ordering keys of unfinished jobs, each looked up by its id.
SELECT j.id::text, q.name, j.ordering_key
  FROM unnest(%(ids)s::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT * FROM {schema}.jobs j WHERE j.id = i.id OFFSET 0) j
  JOIN {schema}.queues q ON q.id = j.queue_id
 WHERE j.ordering_key IS NOT NULL

-- name: unique_lock
-- Take the free unique keys, and lock the others; returns those that were taken.
INSERT INTO {schema}.unique_keys AS k (queue_id, key, job_id, expires_at)
SELECT queue_id, key, job_id, CASE WHEN seconds IS NULL THEN 'infinity' ELSE now() + make_interval(secs => seconds) END
  FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(job_id)s::uuid[], %(seconds)s::float8[])
       AS i (queue_id, key, job_id, seconds)
 ORDER BY queue_id, key COLLATE "C"
    -- The condition is never true, but the row that it is asked of is locked.
    ON CONFLICT (queue_id, key) DO UPDATE SET key = excluded.key WHERE false
RETURNING queue_id, key, job_id::text

-- name: unique_take
-- Take locked unique keys that are not held any more; returns the holder of each. A new statement, so that it sees what the
-- transactions did that had them locked before.
WITH found AS MATERIALIZED (
    SELECT i.queue_id, i.key, i.job_id, i.seconds, k.job_id AS holder,
           CASE WHEN k.expires_at = 'infinity' THEN NOT EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = k.job_id)
                ELSE k.expires_at <= now() END AS free
      FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(job_id)s::uuid[], %(seconds)s::float8[])
           AS i (queue_id, key, job_id, seconds)
     CROSS JOIN LATERAL (SELECT * FROM {schema}.unique_keys k WHERE k.queue_id = i.queue_id AND k.key = i.key OFFSET 0) k
), taken AS (
    UPDATE {schema}.unique_keys k
       SET job_id = f.job_id,
           expires_at = CASE WHEN f.seconds IS NULL THEN 'infinity' ELSE now() + make_interval(secs => f.seconds) END
      FROM found f
     WHERE k.queue_id = f.queue_id AND k.key = f.key AND f.free
)
SELECT queue_id, key, CASE WHEN free THEN job_id ELSE holder END::text FROM found
