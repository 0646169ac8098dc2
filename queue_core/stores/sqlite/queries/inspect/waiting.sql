-- Jobs that wait for a time, by queue and place.
SELECT queue_id, place, count(*) FROM jobs INDEXED BY jobs_due WHERE place IN ('scheduled', 'retrying') GROUP BY 1, 2
