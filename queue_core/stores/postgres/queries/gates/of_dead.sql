-- Return the ordering keys that dead jobs hold, each looked up by its id.
SELECT d.id::text, q.name, d.ordering_key
  FROM unnest(%(ids)s::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT * FROM jobs_dead d WHERE d.id = i.id OFFSET 0) d
  JOIN queues q ON q.id = d.queue_id
 WHERE d.holds
