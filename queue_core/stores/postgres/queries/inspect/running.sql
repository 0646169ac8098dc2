-- Running jobs by queue and priority.
SELECT j.queue_id, j.priority::int, count(*) FROM leases l JOIN jobs j ON j.id = l.id GROUP BY 1, 2
