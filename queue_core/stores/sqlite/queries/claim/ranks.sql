-- The best ranks of the ready jobs of one type, read from the index alone.
SELECT rank, number FROM jobs INDEXED BY jobs_ready WHERE queue_id = ? AND type = ? AND rank IS NOT NULL ORDER BY rank LIMIT ?
