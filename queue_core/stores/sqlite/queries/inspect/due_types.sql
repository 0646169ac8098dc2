-- The types of the jobs that become ready next, by queue.
SELECT queue_id, type, count(*)
  FROM (SELECT queue_id, type FROM jobs INDEXED BY jobs_due WHERE place IN ('scheduled', 'retrying') ORDER BY run_at LIMIT ?)
 GROUP BY queue_id, type
