-- Look at the next ordering keys in order, from a place on, and tell of each whether jobs wait for it although it has room.
-- Each key is found by its first entry in the index, however many jobs it has.
WITH RECURSIVE rule AS MATERIALIZED (
    SELECT q.id, r.most FROM unnest(%(queue)s::text[], %(most)s::int[]) AS r (queue, most) JOIN queues q ON q.name = r.queue
), looked AS (
    (SELECT j.queue_id, j.ordering_key, 1 AS number
       FROM jobs j
      WHERE j.ordering_key IS NOT NULL AND (j.queue_id, j.ordering_key) > (%(queue_id)s::int, %(key)s::text)
      ORDER BY j.queue_id, j.ordering_key LIMIT 1)
    UNION ALL
    SELECT n.queue_id, n.ordering_key, k.number + 1
      FROM looked k
     CROSS JOIN LATERAL (SELECT j.queue_id, j.ordering_key FROM jobs j
                          WHERE j.ordering_key IS NOT NULL AND (j.queue_id, j.ordering_key) > (k.queue_id, k.ordering_key)
                          ORDER BY j.queue_id, j.ordering_key LIMIT 1) n
     WHERE k.number < %(limit)s
), judged AS (
    SELECT k.queue_id, k.ordering_key, coalesce((SELECT most FROM rule WHERE id = k.queue_id), 1) AS most FROM looked k
)
SELECT k.queue_id, q.name, k.ordering_key,
       EXISTS (SELECT FROM jobs j WHERE j.queue_id = k.queue_id AND j.ordering_key = k.ordering_key
                                    AND NOT j.holds AND j.status = 'queued')
       AND (SELECT count(*) FROM (SELECT FROM jobs j WHERE j.queue_id = k.queue_id AND j.ordering_key = k.ordering_key
                                                       AND j.holds LIMIT k.most) AS h)
         + (SELECT count(*) FROM (SELECT FROM jobs_dead d WHERE d.queue_id = k.queue_id AND d.ordering_key = k.ordering_key
                                                            AND d.holds LIMIT k.most) AS h) < k.most
  FROM judged k JOIN queues q ON q.id = k.queue_id
 ORDER BY 1, 3
