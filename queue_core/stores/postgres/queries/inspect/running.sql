-- Running jobs by queue and priority, and how many of them have not begun.
SELECT j.queue_id, j.priority::int, count(*), count(*) FILTER (WHERE NOT l.begun)
  FROM leases l JOIN jobs j ON j.id = l.id GROUP BY 1, 2
