-- The last lines of a job's log, oldest first.
SELECT number, token, at, text
  FROM (SELECT number, token, at, text FROM job_logs
         WHERE job_id = %(id)s::uuid ORDER BY number DESC LIMIT %(limit)s) newest
 ORDER BY number
