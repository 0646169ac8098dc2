-- Jobs that are not ready by queue and status.
SELECT queue_id, status::text, count(*) FROM jobs WHERE rank IS NULL GROUP BY 1, 2
