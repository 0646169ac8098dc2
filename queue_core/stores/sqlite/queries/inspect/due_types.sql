-- The types of the jobs that become ready next.
SELECT type, count(*)
  FROM (SELECT type FROM jobs INDEXED BY jobs_due WHERE place IN ('scheduled', 'retrying') ORDER BY run_at LIMIT ?)
 GROUP BY type
