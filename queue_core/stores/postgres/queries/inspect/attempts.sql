-- The failed attempts of a job, oldest first.
SELECT a.job_id::text, a.token, a.number, a.kind, a.exception, a.message, a.traceback, a.signature, a.worker, a.started_at,
       a.finished_at
  FROM job_attempts a
 WHERE a.job_id = %(id)s::uuid
 ORDER BY a.token
