-- Keep an attempt that failed.
INSERT INTO attempts (job, token, number, kind, exception, message, traceback, signature, worker, started_at, finished_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
