-- Running jobs by queue, and whether they have begun.
SELECT queue_id, iif(begun, 'begun', 'ahead'), count(*) FROM jobs INDEXED BY jobs_listed WHERE place = 'running' GROUP BY 1, 2
