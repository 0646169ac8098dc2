-- Dead jobs by queue, those in the trash apart.
SELECT queue_id, place, count(*) FROM jobs INDEXED BY jobs_dead WHERE place IN ('dead', 'trashed') GROUP BY 1, 2
