-- The ids of the jobs of one place in order.
SELECT j.number, j.id, j.updated_at
  FROM jobs j {index} CROSS JOIN queues q ON q.number = j.queue_id{payloads}
 WHERE {place}
   AND {conditions}
 ORDER BY {order}
 LIMIT :limit
