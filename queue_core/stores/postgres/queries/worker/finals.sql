-- Return what is known about jobs, wherever they are; a result that is over its retention is gone. Each is looked up by its id,
-- whatever the statistics say.
SELECT i.id::text, f.status, f.result, f.error
  FROM (SELECT DISTINCT unnest(%(ids)s::uuid[]) AS id) i
 CROSS JOIN LATERAL (
       SELECT CASE WHEN (SELECT true FROM leases l WHERE l.id = j.id) THEN 'running' ELSE j.status::text END AS status,
              NULL AS result, j.error
         FROM jobs j WHERE j.id = i.id
       UNION ALL
       SELECT 'dead', NULL, d.error FROM jobs_dead d WHERE d.id = i.id
       UNION ALL
       SELECT h.status::text, CASE WHEN h.finished_at > now() - make_interval(secs => %(seconds)s) THEN h.result END, h.error
         FROM job_history h WHERE h.id = i.id
       OFFSET 0) f
