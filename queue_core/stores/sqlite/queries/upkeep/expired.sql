-- Jobs that came to a final place before a time, the first ones first.
SELECT number, queue_id, type FROM jobs INDEXED BY jobs_listed WHERE place = ? AND updated_at < ? ORDER BY updated_at LIMIT ?
