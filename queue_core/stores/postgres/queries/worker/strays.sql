-- Return what some claims have given to a worker.
SELECT l.id::text, l.token, q.name, j.type, j.ordering_key
  FROM leases l
 CROSS JOIN LATERAL (SELECT queue_id, type, ordering_key FROM jobs j WHERE j.id = l.id OFFSET 0) j
  JOIN queues q ON q.id = j.queue_id
 WHERE l.worker = %(worker)s AND l.claim = ANY (%(claims)s::int[])
