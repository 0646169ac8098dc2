-- The newest job of a group.
SELECT j.id
  FROM jobs j INDEXED BY jobs_dead CROSS JOIN queues q ON q.number = j.queue_id{payloads}
 WHERE j.place IN ('dead', 'trashed') AND j.place = :place AND j.signature IS nullif(:signature, '')
   AND {conditions}
 ORDER BY {order}
 LIMIT 1
