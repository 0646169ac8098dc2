-- Append a line to the log of a job.
INSERT INTO job_logs (job, number, token, line, at, text) VALUES (?, ?, ?, ?, ?, ?)
