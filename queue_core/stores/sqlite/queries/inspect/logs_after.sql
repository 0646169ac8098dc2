-- The lines of a job's log that follow one.
SELECT number, token, at, text FROM job_logs WHERE job = ? AND number > ? ORDER BY number LIMIT ?
