-- Jobs with a rank in queues with aging, by queue and priority, ready and running ones alike.
SELECT queue_id, priority::int, count(*) FROM jobs
 WHERE rank IS NOT NULL AND queue_id = ANY (%(aging)s::int[]) GROUP BY 1, 2
