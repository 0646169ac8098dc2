-- Lock some keys that are held for as long as a job is unfinished, from a place on; those that others have locked are in use.
SELECT queue_id, key, job_id::text FROM job_keys
 WHERE (queue_id, key) > (%(queue_id)s::int, %(key)s::text) AND expires_at = 'infinity'
 ORDER BY queue_id, key
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED
