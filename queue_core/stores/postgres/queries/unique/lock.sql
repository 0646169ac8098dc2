-- Take unique keys that nobody has, and lock the others; returns those that were taken.
INSERT INTO job_keys AS k (queue_id, key, job_id, expires_at)
SELECT queue_id, key, job_id, CASE WHEN seconds IS NULL THEN 'infinity' ELSE now() + make_interval(secs => seconds) END
  FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(job_id)s::uuid[], %(seconds)s::float8[])
       AS i (queue_id, key, job_id, seconds)
 ORDER BY queue_id, key COLLATE "C"
    -- The condition is never true, but the row that it is asked of is locked.
    ON CONFLICT (queue_id, key) DO UPDATE SET key = excluded.key WHERE false
RETURNING queue_id, key, job_id::text
