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

-- name: gates_open
-- Release the next jobs of ordering keys, by their arrival, as many as may be under way; unused gates are deleted. The
-- gates were locked by a statement before this one, so that who holds a key and who waits for it is seen whole. Up to `passed` in the
-- order of arrival a key has no job, unless one may have returned there: then all of it is read (`whole`).
WITH named AS MATERIALIZED (
    SELECT g.*, coalesce((SELECT o.passed FROM {schema}.order_gates o WHERE o.queue_id = g.queue_id AND o.key = g.key AND NOT %(whole)s), 0) AS passed
      FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(most)s::int[]) WITH ORDINALITY AS g (queue_id, key, most, place)
), gate AS MATERIALIZED (
    SELECT g.*, g.most
           - (SELECT count(*) FROM (SELECT FROM {schema}.jobs j
                                     WHERE j.queue_id = g.queue_id AND j.ordering_key = g.key AND j.holds
                                       AND j.status = ANY ('{queued,retrying,scheduled}'::{schema}.job_status[]) AND j.seq > g.passed
                                     LIMIT g.most) AS h)
           - (SELECT count(*) FROM (SELECT FROM {schema}.jobs_dead d
                                     WHERE d.queue_id = g.queue_id AND d.ordering_key = g.key AND d.holds LIMIT g.most) AS h) AS room
      FROM named g
), turn AS MATERIALIZED (
    SELECT t.id, g.place
      FROM gate g
     CROSS JOIN LATERAL (SELECT j.id FROM {schema}.jobs j
                          WHERE j.queue_id = g.queue_id AND j.ordering_key = g.key AND NOT j.holds AND j.status = 'queued'
                            AND j.seq > g.passed
                          ORDER BY j.seq
                          LIMIT greatest(0, g.room)
                            FOR NO KEY UPDATE) t
), opened AS (
    UPDATE {schema}.jobs SET holds = true, rank = coalesce(place, (127 - priority)::bigint << 45 | seq)
     WHERE id = ANY (ARRAY(SELECT id FROM turn))
    RETURNING id, queue_id, ordering_key, rank
), idle AS (
    DELETE FROM {schema}.order_gates
     WHERE ctid = ANY (ARRAY(SELECT o.ctid
                               FROM gate g
                              CROSS JOIN LATERAL (SELECT ctid, passed FROM {schema}.order_gates o
                                                   WHERE o.queue_id = g.queue_id AND o.key = g.key OFFSET 0) o
                              WHERE o.passed = 0 AND g.room = g.most AND (g.place IN (SELECT place FROM turn)) IS NOT TRUE))
), lowered AS (
    UPDATE {schema}.order_gates SET passed = 0
     WHERE ctid = ANY (ARRAY(SELECT o.ctid
                               FROM gate g
                              CROSS JOIN LATERAL (SELECT ctid, passed FROM {schema}.order_gates o
                                                   WHERE o.queue_id = g.queue_id AND o.key = g.key OFFSET 0) o
                              WHERE %(whole)s AND o.passed > 0))
)
SELECT queue_id, ordering_key, id::text, rank FROM opened ORDER BY rank

-- name: gates_lock_soon
-- Lock gates like ordering/gates_lock, but do not wait for long, neither here nor later in this transaction.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
), named AS MATERIALIZED (
    SELECT DISTINCT i.queue, q.id, i.key
      FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
     CROSS JOIN LATERAL (SELECT id FROM {schema}.queues q WHERE q.name = i.queue OFFSET 0) q
), locked AS (
    -- The condition is never true, but the row that it is asked of is locked.
    INSERT INTO {schema}.order_gates (queue_id, key)
    SELECT id, key FROM named ORDER BY id, key COLLATE "C"
        ON CONFLICT (queue_id, key) DO UPDATE SET key = excluded.key WHERE false
)
SELECT DISTINCT queue, id FROM named, patience

-- name: gates_make
-- Create missing gates, but do not wait long for a transaction that is creating one of them. Existing ones are left out: an
-- insert would wait for a transaction that is changing one.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
)
INSERT INTO {schema}.order_gates (queue_id, key)
SELECT DISTINCT q.id, i.key
  FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
 CROSS JOIN LATERAL (SELECT id FROM {schema}.queues q WHERE q.name = i.queue OFFSET 0) q
 CROSS JOIN patience
 WHERE (SELECT true FROM {schema}.order_gates o WHERE o.queue_id = q.id AND o.key = i.key) IS NULL
 ORDER BY 1, 2
    ON CONFLICT (queue_id, key) DO NOTHING

-- name: gates_lock_free
-- Lock the gates that no other transaction has locked, without waiting; returns all and which were locked.
SELECT i.queue, i.id, i.key, o.key IS NOT NULL
  FROM (SELECT DISTINCT i.queue, q.id, i.key
          FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
         CROSS JOIN LATERAL (SELECT id FROM {schema}.queues q WHERE q.name = i.queue OFFSET 0) q) i
  LEFT JOIN LATERAL (SELECT o.key FROM {schema}.order_gates o
                      WHERE o.queue_id = i.id AND o.key = i.key FOR UPDATE SKIP LOCKED) o ON true

-- name: gates_note
-- Note ordering keys that are released while other transactions have their gates locked.
INSERT INTO {schema}.order_checks (queue_id, key) SELECT * FROM unnest(%(queue_id)s::int[], %(key)s::text[])

-- name: gates_pass
-- Note up to which place in the order of arrival keys have no holder and no waiting job, so that the next read leaves out
-- what ended before. Their gates are locked: who comes to wait from now on arrives behind it, or opens the gate as a whole.
UPDATE {schema}.order_gates o
   SET passed = coalesce(
       (SELECT min(f.seq)
          FROM (VALUES (true, 'queued'::{schema}.job_status), (true, 'retrying'), (true, 'scheduled'), (false, 'queued')) AS v (holds, status)
         CROSS JOIN LATERAL (SELECT j.seq FROM {schema}.jobs j
                              WHERE j.queue_id = o.queue_id AND j.ordering_key = o.key AND j.holds = v.holds AND j.status = v.status
                                AND j.seq > o.passed
                              ORDER BY j.seq LIMIT 1) f) - 1,
       (SELECT last_value FROM {schema}.job_seq))
 WHERE ctid = ANY (ARRAY(SELECT g.ctid
                           FROM unnest(%(queue_id)s::int[], %(key)s::text[]) AS i (queue_id, key)
                          CROSS JOIN LATERAL (SELECT ctid FROM {schema}.order_gates g
                                               WHERE g.queue_id = i.queue_id AND g.key = i.key OFFSET 0) g))

-- name: gates_stalled
-- Look at the next ordering keys in order, from a place on, and return for each whether jobs wait for it although it has room.
-- Each key is found by its first entry in the index, however many jobs it has.
WITH RECURSIVE rule AS MATERIALIZED (
    SELECT q.id, r.most FROM unnest(%(queue)s::text[], %(most)s::int[]) AS r (queue, most) JOIN {schema}.queues q ON q.name = r.queue
), looked AS (
    (SELECT j.queue_id, j.ordering_key, 1 AS number
       FROM {schema}.jobs j
      WHERE j.ordering_key IS NOT NULL AND (j.queue_id, j.ordering_key) > (%(queue_id)s::int, %(key)s::text)
      ORDER BY j.queue_id, j.ordering_key LIMIT 1)
    UNION ALL
    SELECT n.queue_id, n.ordering_key, k.number + 1
      FROM looked k
     CROSS JOIN LATERAL (SELECT j.queue_id, j.ordering_key FROM {schema}.jobs j
                          WHERE j.ordering_key IS NOT NULL AND (j.queue_id, j.ordering_key) > (k.queue_id, k.ordering_key)
                          ORDER BY j.queue_id, j.ordering_key LIMIT 1) n
     WHERE k.number < %(limit)s
), judged AS (
    SELECT k.queue_id, k.ordering_key, coalesce((SELECT most FROM rule WHERE id = k.queue_id), 1) AS most FROM looked k
)
SELECT k.queue_id, q.name, k.ordering_key,
       EXISTS (SELECT FROM {schema}.jobs j WHERE j.queue_id = k.queue_id AND j.ordering_key = k.ordering_key
                                    AND NOT j.holds AND j.status = 'queued')
       AND (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue_id = k.queue_id AND j.ordering_key = k.ordering_key
                                                       AND j.holds LIMIT k.most) AS h)
         + (SELECT count(*) FROM (SELECT FROM {schema}.jobs_dead d WHERE d.queue_id = k.queue_id AND d.ordering_key = k.ordering_key
                                                            AND d.holds LIMIT k.most) AS h) < k.most
  FROM judged k JOIN {schema}.queues q ON q.id = k.queue_id
 ORDER BY 1, 3

-- name: unique_look
-- Lock some keys that are held for as long as a job is unfinished, from a place on; those that others have locked are in use.
SELECT queue_id, key, job_id::text FROM {schema}.job_keys
 WHERE (queue_id, key) > (%(queue_id)s::int, %(key)s::text) AND expires_at = 'infinity'
 ORDER BY queue_id, key
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED

-- name: gates_lock
-- Lock the gates of ordering keys, making those that are missing; returns the numbers of their queues. One order for
-- all transactions, and always before the rows of jobs, which prevents deadlocks.
WITH named AS MATERIALIZED (
    SELECT DISTINCT i.queue, q.id, i.key
      FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
     CROSS JOIN LATERAL (SELECT id FROM {schema}.queues q WHERE q.name = i.queue OFFSET 0) q
), locked AS (
    -- The condition is never true, but the row that it is asked of is locked.
    INSERT INTO {schema}.order_gates (queue_id, key)
    SELECT id, key FROM named ORDER BY id, key COLLATE "C"
        ON CONFLICT (queue_id, key) DO UPDATE SET key = excluded.key WHERE false
)
SELECT DISTINCT queue, id FROM named

-- name: unique_forget
-- Forget locked keys whose jobs are not unfinished any more. A new statement: an insert or an operator's retry that had the key
-- locked before is seen with its job.
DELETE FROM {schema}.job_keys
 WHERE ctid = ANY (ARRAY(SELECT k.ctid
                           FROM unnest(%(queue_id)s::int[], %(key)s::text[]) AS i (queue_id, key)
                          CROSS JOIN LATERAL (SELECT ctid, job_id FROM {schema}.job_keys k
                                               WHERE k.queue_id = i.queue_id AND k.key = i.key OFFSET 0) k
                          WHERE NOT EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = k.job_id)))

-- name: unique_lock
-- Take the free unique keys, and lock the others; returns those that were taken.
INSERT INTO {schema}.job_keys AS k (queue_id, key, job_id, expires_at)
SELECT queue_id, key, job_id, CASE WHEN seconds IS NULL THEN 'infinity' ELSE now() + make_interval(secs => seconds) END
  FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(job_id)s::uuid[], %(seconds)s::float8[])
       AS i (queue_id, key, job_id, seconds)
 ORDER BY queue_id, key COLLATE "C"
    -- The condition is never true, but the row that it is asked of is locked.
    ON CONFLICT (queue_id, key) DO UPDATE SET key = excluded.key WHERE false
RETURNING queue_id, key, job_id::text

-- name: unique_take
-- Take locked unique keys that are not held any more; returns the holder of each. A new statement, so that it sees what those
-- have done who had them locked before.
WITH found AS MATERIALIZED (
    SELECT i.queue_id, i.key, i.job_id, i.seconds, k.job_id AS holder,
           CASE WHEN k.expires_at = 'infinity' THEN NOT EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = k.job_id)
                ELSE k.expires_at <= now() END AS free
      FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(job_id)s::uuid[], %(seconds)s::float8[])
           AS i (queue_id, key, job_id, seconds)
     CROSS JOIN LATERAL (SELECT * FROM {schema}.job_keys k WHERE k.queue_id = i.queue_id AND k.key = i.key OFFSET 0) k
), taken AS (
    UPDATE {schema}.job_keys k
       SET job_id = f.job_id,
           expires_at = CASE WHEN f.seconds IS NULL THEN 'infinity' ELSE now() + make_interval(secs => f.seconds) END
      FROM found f
     WHERE k.queue_id = f.queue_id AND k.key = f.key AND f.free
)
SELECT queue_id, key, CASE WHEN free THEN job_id ELSE holder END::text FROM found

-- name: unique_expire
-- Forget unique keys whose time is over, a batch.
WITH gone AS (
    DELETE FROM {schema}.job_keys
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.job_keys WHERE expires_at < 'infinity' AND expires_at <= now()
                              LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) FROM gone
