-- A page of a queue's ready jobs in order: for a rebuild, which reads the whole backlog anyway.
SELECT id, rank
  FROM jobs INDEXED BY jobs_ready
 WHERE queue_id = (SELECT number FROM queues WHERE name = :queue) AND rank IS NOT NULL AND rank > :rank
 ORDER BY rank
 LIMIT :limit
