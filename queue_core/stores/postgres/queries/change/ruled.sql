-- Return what the rules of queues have to do with an operator's retry of dead and completed jobs.
SELECT f.id::text, q.name, q.id, f.ordering_key, CASE WHEN f.unique_seconds IS NULL THEN f.unique_key END
  FROM (SELECT id, queue_id, ordering_key, unique_key, unique_seconds FROM jobs_dead WHERE id = ANY (%(ids)s::uuid[])
        UNION ALL
        SELECT id, queue_id, ordering_key, unique_key, unique_seconds FROM job_history
         WHERE id = ANY (%(ids)s::uuid[]) AND status = 'completed') f
  JOIN queues q ON q.id = f.queue_id
 WHERE f.ordering_key IS NOT NULL OR f.unique_key IS NOT NULL AND f.unique_seconds IS NULL OR q.name = ANY (%(aging)s::text[])
