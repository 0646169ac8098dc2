-- Dead jobs by queue, those in the trash apart.
SELECT queue_id, false, count(*) FROM jobs_dead WHERE trashed_at IS NULL GROUP BY 1
UNION ALL
SELECT queue_id, true, count(*) FROM jobs_dead WHERE trashed_at IS NOT NULL GROUP BY 1
