-- When the next scheduled or retrying job is due.
SELECT run_at FROM jobs INDEXED BY jobs_due WHERE place IN ('scheduled', 'retrying') ORDER BY run_at LIMIT 1
