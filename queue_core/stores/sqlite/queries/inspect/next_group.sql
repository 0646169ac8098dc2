-- The next type and priority of a queue that has ready jobs, by the rank of its first one.
SELECT type, rank
  FROM jobs INDEXED BY jobs_ready
 WHERE queue_id = ? AND rank IS NOT NULL AND (type, rank) > (?, ?)
 ORDER BY type, rank
 LIMIT 1
