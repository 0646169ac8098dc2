-- Running jobs by queue and priority, and how many of them have not begun.
SELECT j.queue_id, j.priority::int, count(*), count(*) FILTER (WHERE NOT l.begun)
  FROM leases l
 CROSS JOIN LATERAL (SELECT queue_id, priority FROM jobs WHERE id = l.id OFFSET 0) j
 GROUP BY 1, 2
