-- Take locked unique keys that are not held any more; returns the holder of each. A new statement, so that it sees what those
-- have done who had them locked before.
WITH found AS MATERIALIZED (
    SELECT i.queue_id, i.key, i.job_id, i.seconds, k.job_id AS holder,
           CASE WHEN k.expires_at = 'infinity' THEN NOT EXISTS (SELECT FROM jobs j WHERE j.id = k.job_id)
                ELSE k.expires_at <= now() END AS free
      FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(job_id)s::uuid[], %(seconds)s::float8[])
           AS i (queue_id, key, job_id, seconds)
     CROSS JOIN LATERAL (SELECT * FROM job_keys k WHERE k.queue_id = i.queue_id AND k.key = i.key OFFSET 0) k
), taken AS (
    UPDATE job_keys k
       SET job_id = f.job_id,
           expires_at = CASE WHEN f.seconds IS NULL THEN 'infinity' ELSE now() + make_interval(secs => f.seconds) END
      FROM found f
     WHERE k.queue_id = f.queue_id AND k.key = f.key AND f.free
)
SELECT queue_id, key, CASE WHEN free THEN job_id ELSE holder END::text FROM found
