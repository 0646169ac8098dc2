-- The types of the jobs that become ready next, by queue.
SELECT queue_id, type, count(*)
  FROM (SELECT queue_id, type FROM jobs WHERE rank IS NULL AND status <> 'queued' ORDER BY run_at LIMIT %(limit)s) AS first
 GROUP BY 1, 2
