-- Forget the lines of a job up to one.
DELETE FROM job_logs WHERE job = ? AND number <= ?
