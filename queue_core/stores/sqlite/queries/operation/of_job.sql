-- The operations that have changed a job, the newest first.
SELECT operation
  FROM operation_members INDEXED BY operation_members_job
 WHERE job_id = ? AND changed = 1
 ORDER BY operation DESC
 LIMIT ?
