-- Forget the log of a job.
DELETE FROM job_logs WHERE job = ?
