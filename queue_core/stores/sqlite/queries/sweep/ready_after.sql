-- A page of a queue's ready jobs in order.
SELECT id, rank
  FROM jobs INDEXED BY jobs_ready
 WHERE queue_id = (SELECT number FROM queues WHERE name = :queue) AND rank > :rank
 ORDER BY rank
 LIMIT :limit
