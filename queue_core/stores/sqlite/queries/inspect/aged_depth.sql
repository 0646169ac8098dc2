-- How many of them of a type are between two ranks.
SELECT count(*) FROM jobs INDEXED BY jobs_aged WHERE queue_id = ? AND type = ? AND aged IS NOT NULL AND rank BETWEEN ? AND ?
