-- Forget that a job that goes for good once held a unique key, unless it holds it for a time.
DELETE FROM unique_keys WHERE queue_id = ? AND unique_key = ? AND job = ? AND until IS NULL
