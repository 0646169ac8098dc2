-- Return what is known about jobs, wherever they are; a result that is over its retention is gone. Each is looked up by its id,
-- whatever the statistics say.
SELECT i.id::text, f.status, CASE WHEN NOT f.expired THEN f.result END, f.error, f.expired
  FROM (SELECT DISTINCT unnest(%(ids)s::uuid[]) AS id) i
 CROSS JOIN LATERAL (
       SELECT CASE WHEN (SELECT true FROM leases l WHERE l.id = j.id) THEN 'running' ELSE j.status::text END AS status,
              NULL AS result, j.error, false AS expired
         FROM jobs j WHERE j.id = i.id
       UNION ALL
       SELECT 'dead', NULL, d.error, false FROM jobs_dead d WHERE d.id = i.id
       UNION ALL
       SELECT h.status::text, h.result, h.error,
              h.status = 'completed' AND h.finished_at <= now() - make_interval(secs => %(seconds)s)
         FROM job_history h WHERE h.id = i.id
       OFFSET 0) f
