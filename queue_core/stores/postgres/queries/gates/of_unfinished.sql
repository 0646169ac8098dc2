-- Return the ordering keys of unfinished jobs, each looked up by its id.
SELECT j.id::text, q.name, j.ordering_key
  FROM unnest(%(ids)s::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE j.id = i.id OFFSET 0) j
  JOIN queues q ON q.id = j.queue_id
 WHERE j.ordering_key IS NOT NULL
