-- What changes need to know of these jobs, in the order of their ids.
SELECT j.number, j.id, j.queue_id, q.name, j.type, j.place, j.priority, j.run_at, j.cancel, j.ordering_key, j.holds,
       j.unique_key, j.unique_seconds, q.counted, j.token, j.ended
  FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN queues q ON q.number = j.queue_id
 ORDER BY i.key
