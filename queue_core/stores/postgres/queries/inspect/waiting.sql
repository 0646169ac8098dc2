-- Scheduled and retrying jobs by queue.
SELECT queue_id, status::text, count(*) FROM jobs WHERE rank IS NULL AND status <> 'queued' GROUP BY 1, 2
