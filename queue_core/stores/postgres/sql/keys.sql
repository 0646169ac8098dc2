-- name: stalled
-- Scan the next ordering keys in order, from one on, and return for each whether jobs wait for it although it is free.
-- Each key is found by its first entry in the index, however many jobs it has.
WITH RECURSIVE rule AS MATERIALIZED (
    SELECT q.id, r.capacity FROM unnest(%(queue)s::text[], %(capacity)s::int[]) AS r (queue, capacity) JOIN {schema}.queues q ON q.name = r.queue
), scanned AS (
    (SELECT j.queue_id, j.ordering_key, 1 AS number
       FROM {schema}.jobs j
      WHERE j.ordering_key IS NOT NULL AND (j.queue_id, j.ordering_key) > (%(queue_id)s::int, %(key)s::text)
      ORDER BY j.queue_id, j.ordering_key LIMIT 1)
    UNION ALL
    SELECT n.queue_id, n.ordering_key, k.number + 1
      FROM scanned k
     CROSS JOIN LATERAL (SELECT j.queue_id, j.ordering_key FROM {schema}.jobs j
                          WHERE j.ordering_key IS NOT NULL AND (j.queue_id, j.ordering_key) > (k.queue_id, k.ordering_key)
                          ORDER BY j.queue_id, j.ordering_key LIMIT 1) n
     WHERE k.number < %(limit)s
), limited AS (
    SELECT k.queue_id, k.ordering_key, coalesce((SELECT capacity FROM rule WHERE id = k.queue_id), 1) AS capacity FROM scanned k
)
SELECT k.queue_id, q.name, k.ordering_key,
       EXISTS (SELECT FROM {schema}.jobs j WHERE j.queue_id = k.queue_id AND j.ordering_key = k.ordering_key
                                    AND NOT j.admitted AND j.status = 'queued')
       AND (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue_id = k.queue_id AND j.ordering_key = k.ordering_key
                                                       AND j.admitted LIMIT k.capacity) AS h)
         + (SELECT count(*) FROM (SELECT FROM {schema}.jobs_dead d WHERE d.queue_id = k.queue_id AND d.ordering_key = k.ordering_key
                                                            AND d.admitted LIMIT k.capacity) AS h) < k.capacity
  FROM limited k JOIN {schema}.queues q ON q.id = k.queue_id
 ORDER BY 1, 3

-- name: unused_locks
-- Scan the next locks of ordering keys, from one on, and return for each whether no job has its key: an application's transaction was
-- rolled back that had it made. Those that know what their key has passed stay.
SELECT o.queue_id, q.name, o.key,
       o.low_watermark = 0 AND q.name IS NOT NULL
       AND (SELECT true FROM {schema}.jobs j WHERE j.queue_id = o.queue_id AND j.ordering_key = o.key LIMIT 1) IS NULL
  FROM (SELECT queue_id, key, low_watermark FROM {schema}.ordering_locks
         WHERE (queue_id, key) > (%(queue_id)s::int, %(key)s::text)
         ORDER BY queue_id, key LIMIT %(limit)s) o
  LEFT JOIN {schema}.queues q ON q.id = o.queue_id
 ORDER BY 1, 3

-- name: forget_locks
-- Forget locked ordering keys that no job has. A new statement: a job whose transaction had the key locked before is seen.
DELETE FROM {schema}.ordering_locks
 WHERE ctid = ANY (ARRAY(SELECT g.ctid
                           FROM unnest(%(queue_id)s::int[], %(key)s::text[]) AS i (queue_id, key)
                          CROSS JOIN LATERAL (SELECT ctid, queue_id, key, low_watermark FROM {schema}.ordering_locks g
                                               WHERE g.queue_id = i.queue_id AND g.key = i.key OFFSET 0) g
                          WHERE g.low_watermark = 0
                            AND (SELECT true FROM {schema}.jobs j
                                  WHERE j.queue_id = g.queue_id AND j.ordering_key = g.key LIMIT 1) IS NULL))

-- name: expire_unique
-- Forget unique keys whose time is over, a batch.
WITH removed AS (
    DELETE FROM {schema}.unique_keys
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.unique_keys WHERE expires_at < 'infinity' AND expires_at <= now()
                              LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) FROM removed

-- name: look_unique
-- Lock some keys that are held for as long as a job is unfinished, from one on; those that others have locked are in use.
SELECT queue_id, key, job_id::text FROM {schema}.unique_keys
 WHERE (queue_id, key) > (%(queue_id)s::int, %(key)s::text) AND expires_at = 'infinity'
 ORDER BY queue_id, key
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED

-- name: forget_unique
-- Forget locked keys whose jobs are not unfinished any more. A new statement: an insert or an operator's retry that had the key
-- locked before is seen with its job.
DELETE FROM {schema}.unique_keys
 WHERE ctid = ANY (ARRAY(SELECT k.ctid
                           FROM unnest(%(queue_id)s::int[], %(key)s::text[]) AS i (queue_id, key)
                          CROSS JOIN LATERAL (SELECT ctid, job_id FROM {schema}.unique_keys k
                                               WHERE k.queue_id = i.queue_id AND k.key = i.key OFFSET 0) k
                          WHERE NOT EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = k.job_id)))
