-- Forget lines of the jobs that upkeep/expired finds, a batch.
DELETE FROM job_logs
 WHERE rowid IN (SELECT l.rowid
                   FROM (SELECT number FROM jobs INDEXED BY jobs_listed
                          WHERE place = ? AND updated_at < ? ORDER BY updated_at LIMIT ?) j
                  CROSS JOIN job_logs l ON l.job = j.number
                  LIMIT ?)
