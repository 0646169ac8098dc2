-- Return what the rules of queues have to do with an operator's retry of dead and completed jobs: its queue, its ordering key and
-- whether it still holds that, its priority, its unique key where it is one while the job is unfinished, whether the job
-- has that, and that it is to have it where it goes. `every`: also of jobs without any keys.
SELECT f.id::text, q.name, q.id, f.ordering_key, f.holds, f.priority, CASE WHEN f.unique_seconds IS NULL THEN f.unique_key END,
       f.unique_key IS NOT NULL AND EXISTS (SELECT FROM job_keys k
                                             WHERE k.queue_id = f.queue_id AND k.key = f.unique_key AND k.job_id = f.id
                                               AND k.expires_at = 'infinity'),
       true
  FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token)
 CROSS JOIN LATERAL (SELECT id, queue_id, priority, ordering_key, holds, unique_key, unique_seconds FROM jobs_dead d
                      WHERE d.id = i.id AND (i.token IS NULL OR d.last_token = i.token)
                     UNION ALL
                     -- Found by their ids and then sorted, for another index has this order.
                     (SELECT id, queue_id, priority, ordering_key, false, unique_key, unique_seconds
                        FROM (SELECT * FROM job_history h
                               WHERE h.id = i.id AND h.status = 'completed' AND (i.token IS NULL OR h.last_token = i.token)
                                 AND (SELECT true FROM jobs_dead d WHERE d.id = i.id) IS NULL
                              OFFSET 0) h
                       ORDER BY finished_at DESC LIMIT 1)
                     OFFSET 0) f
  JOIN queues q ON q.id = f.queue_id
 WHERE %(every)s OR f.ordering_key IS NOT NULL OR f.unique_key IS NOT NULL AND f.unique_seconds IS NULL
       OR q.name = ANY (%(aging)s::text[])
