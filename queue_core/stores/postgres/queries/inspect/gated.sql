-- Queued jobs that wait for their ordering keys, by queue, priority and type, and since when the longest of them waits.
SELECT queue_id, priority::int, type, count(*), min(run_at)
  FROM jobs WHERE ordering_key IS NOT NULL AND NOT holds AND status = 'queued' GROUP BY 1, 2, 3
