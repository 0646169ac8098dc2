-- Since when the longest waits of the first ready jobs of a type between two ranks.
SELECT min(run_at)
  FROM (SELECT run_at FROM jobs INDEXED BY jobs_ready WHERE queue_id = ? AND type = ? AND rank BETWEEN ? AND ? ORDER BY rank LIMIT ?)
