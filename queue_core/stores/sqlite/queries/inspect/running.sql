-- Running jobs by queue.
SELECT queue_id, place, count(*) FROM jobs INDEXED BY jobs_listed WHERE place = 'running' GROUP BY 1
