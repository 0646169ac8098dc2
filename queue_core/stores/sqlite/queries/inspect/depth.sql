-- How many ready jobs of a type are between two ranks.
SELECT count(*) FROM jobs INDEXED BY jobs_ready WHERE queue_id = ? AND type = ? AND rank BETWEEN ? AND ?
