-- Groups of dead jobs by error, queue and type; without conditions on anything else it is read from the index alone.
SELECT coalesce(j.signature, ''), j.queue_id, q.name, j.type, count(*), max(j.updated_at)
  FROM jobs j INDEXED BY jobs_dead CROSS JOIN queues q ON q.number = j.queue_id{payloads}
 WHERE j.place IN ('dead', 'trashed') AND j.place = :place
   AND {conditions}
 GROUP BY 1, 2, 4
