-- Return the numbers of the operations that have changed a job, the newest first.
SELECT operation FROM operation_members
 WHERE job_id = %(job)s AND changed
 ORDER BY operation DESC
 LIMIT %(limit)s
