-- What ends of attempts need to know of these jobs.
SELECT j.number, j.id, j.queue_id, q.name, j.type, j.place, j.priority, j.seq, j.run_at, j.retry_count, j.crashes, j.token,
       j.ended, j.worker, j.started_at, j.cancel, j.begun, j.aged, j.ordering_key, q.counted, j.losses
  FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN queues q ON q.number = j.queue_id
