-- The last lines of a job's log, oldest first.
SELECT * FROM (SELECT number, token, at, text FROM job_logs WHERE job = ? ORDER BY number DESC LIMIT ?) ORDER BY number
