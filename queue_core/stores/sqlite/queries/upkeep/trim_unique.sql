-- Forget some unique keys that nobody holds any more.
DELETE FROM unique_keys
 WHERE (queue_id, unique_key) IN (SELECT queue_id, unique_key FROM unique_keys WHERE until <= ? ORDER BY until LIMIT ?)
