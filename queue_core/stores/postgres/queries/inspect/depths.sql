-- Jobs with a rank by queue and priority, ready and running ones alike: read from the ready index alone. In queues with aging
-- the rank does not tell the priority.
SELECT queue_id, (127 - (rank >> 45))::int AS priority, count(*) FROM jobs
 WHERE rank IS NOT NULL AND queue_id <> ALL (%(aging)s::int[]) GROUP BY 1, 2
