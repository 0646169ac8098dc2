-- The lines of a job's log that follow one.
SELECT number, token, at, text FROM job_logs
 WHERE job_id = %(id)s::uuid AND number > %(after)s ORDER BY number LIMIT %(limit)s
