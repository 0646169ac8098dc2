-- Ready jobs whose rank does not tell their priority, by type and priority, and since when the longest of them waits.
SELECT type, priority, count(*), min(run_at)
  FROM jobs INDEXED BY jobs_aged
 WHERE queue_id = ? AND aged IS NOT NULL AND rank IS NOT NULL
 GROUP BY type, priority
