-- Forget locked keys whose jobs are not unfinished any more. A new statement: an insert or an operator's retry that had the key
-- locked before is seen with its job.
DELETE FROM job_keys
 WHERE ctid = ANY (ARRAY(SELECT k.ctid
                           FROM unnest(%(queue_id)s::int[], %(key)s::text[]) AS i (queue_id, key)
                          CROSS JOIN LATERAL (SELECT ctid, job_id FROM job_keys k
                                               WHERE k.queue_id = i.queue_id AND k.key = i.key OFFSET 0) k
                          WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = k.job_id)))
