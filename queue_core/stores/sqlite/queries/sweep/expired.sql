-- Running jobs whose lease is over. There are never many running jobs, so they are looked through.
SELECT j.number, j.id, j.queue_id, q.name, j.type, j.place, j.priority, j.seq, j.run_at, j.retry_count, j.crashes, j.token,
       j.ended, j.worker, j.started_at, j.cancel, j.begun, j.aged, j.ordering_key, q.counted, j.losses
  FROM jobs j INDEXED BY jobs_listed CROSS JOIN queues q ON q.number = j.queue_id
 WHERE j.place = 'running' AND j.expires_at < ?
 LIMIT ?
