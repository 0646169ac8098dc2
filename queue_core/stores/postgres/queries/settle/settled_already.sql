-- Return which refused outcomes were in fact written before, by a settle whose reply was lost on the way. What else may have
-- ended an attempt under this token (a reclaim, an operator) leaves other traces.
SELECT i.id::text, i.token,
       -- cancelled instead of retried
       i.kind = 'retrying' AND EXISTS (
           SELECT FROM job_history h
            WHERE h.id = i.id AND h.last_token = i.token AND h.status = 'cancelled' AND h.worker IS NOT NULL)
  FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(kind)s::text[]) AS i (id, token, kind)
 WHERE CASE
       WHEN i.kind IN ('retrying', 'dead') THEN EXISTS (
            SELECT FROM job_attempts a WHERE a.job_id = i.id AND a.token = i.token AND a.outcome = i.kind)
       WHEN i.kind = 'released' THEN
            EXISTS (SELECT FROM jobs j WHERE j.id = i.id AND j.last_token = i.token AND j.status IN ('queued', 'scheduled'))
            AND NOT EXISTS (SELECT FROM job_attempts a WHERE a.job_id = i.id AND a.token = i.token AND a.outcome <> 'released')
       ELSE EXISTS (
            SELECT FROM job_history h
             WHERE h.id = i.id AND h.last_token = i.token AND h.status::text = i.kind AND h.worker IS NOT NULL)
            AND NOT EXISTS (SELECT FROM job_attempts a WHERE a.job_id = i.id AND a.token = i.token)
       END
