-- Return which refused outcomes were in fact written before, by a settle whose reply was lost on the way.
SELECT i.id::text, i.token
  FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(kind)s::text[]) AS i (id, token, kind)
 WHERE CASE i.kind
       WHEN 'retrying' THEN EXISTS (SELECT FROM job_attempts a WHERE a.job_id = i.id AND a.token = i.token
                                       AND a.kind NOT IN ('crashed', 'poison'))
       WHEN 'dead' THEN EXISTS (SELECT FROM job_attempts a WHERE a.job_id = i.id AND a.token = i.token
                                   AND a.kind <> 'crashed')
       WHEN 'released' THEN EXISTS (SELECT FROM jobs j WHERE j.id = i.id AND j.last_token = i.token)
       ELSE EXISTS (SELECT FROM job_history h WHERE h.id = i.id AND h.last_token = i.token AND h.status::text = i.kind)
       END
