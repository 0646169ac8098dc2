-- The first ready jobs of a queue that have one of these types.
SELECT id, rank
  FROM jobs INDEXED BY jobs_ready
 WHERE queue_id = :queue_id AND rank IS NOT NULL AND type IN (SELECT value FROM json_each(:types))
 ORDER BY rank
 LIMIT :limit
