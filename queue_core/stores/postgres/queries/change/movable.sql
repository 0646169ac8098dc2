-- Return the waiting and dead jobs that have these tokens, each looked up by its id, as change/ruled does.
SELECT f.id::text, q.name, q.id, f.ordering_key, f.holds, f.priority,
       CASE WHEN f.unique_seconds IS NULL THEN f.unique_key END,
       f.unique_key IS NOT NULL AND EXISTS (SELECT FROM job_keys k
                                             WHERE k.queue_id = f.queue_id AND k.key = f.unique_key AND k.job_id = f.id
                                               AND k.expires_at = 'infinity'),
       f.waits
  FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token)
 CROSS JOIN LATERAL (SELECT id, queue_id, priority, ordering_key, true AS holds, unique_key, unique_seconds, true AS waits FROM jobs j
                      WHERE j.id = i.id AND j.last_token = i.token AND (SELECT true FROM leases l WHERE l.id = j.id) IS NULL
                     UNION ALL
                     SELECT id, queue_id, priority, ordering_key, holds, unique_key, unique_seconds, false FROM jobs_dead d
                      WHERE d.id = i.id AND d.last_token = i.token AND d.trashed_at IS NULL
                     OFFSET 0) f
  JOIN queues q ON q.id = f.queue_id
 WHERE coalesce(%(queue)s::text, q.name) <> q.name OR coalesce(%(priority)s::smallint, f.priority) <> f.priority
