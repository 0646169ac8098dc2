-- Let go of locked unique keys that these jobs hold for as long as they are unfinished.
DELETE FROM job_keys
 WHERE ctid = ANY (ARRAY(SELECT k.ctid
                           FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(job_id)s::uuid[]) AS i (queue_id, key, job_id)
                          CROSS JOIN LATERAL (SELECT ctid, job_id, expires_at FROM job_keys k
                                               WHERE k.queue_id = i.queue_id AND k.key = i.key OFFSET 0) k
                          WHERE k.job_id = i.job_id AND k.expires_at = 'infinity'))
