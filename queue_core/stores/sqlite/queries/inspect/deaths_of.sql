-- Deaths by error and queue in each minute from a time on, of jobs that match a filter.
SELECT CAST(j.updated_at / 60 AS INTEGER), coalesce(j.signature, ''), j.queue_id, count(*)
  FROM jobs j INDEXED BY jobs_dead CROSS JOIN queues q ON q.number = j.queue_id{payloads}
 WHERE j.place IN ('dead', 'trashed') AND j.place = :place AND j.updated_at >= :since
   AND {conditions}
 GROUP BY 1, 2, 3
