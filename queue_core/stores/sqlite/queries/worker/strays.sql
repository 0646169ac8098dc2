-- What some claims have given to a worker. There are never many running jobs, so they are looked through.
SELECT j.id, j.token, q.name, j.type, j.ordering_key
  FROM jobs j INDEXED BY jobs_listed CROSS JOIN queues q ON q.number = j.queue_id
 WHERE j.place = 'running' AND j.worker = :worker AND j.claim IN (SELECT value FROM json_each(:claims))
