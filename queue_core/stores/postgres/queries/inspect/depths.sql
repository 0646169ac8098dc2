-- Jobs with a rank by queue and priority, ready and running ones alike: read from the ready index alone.
SELECT queue_id, (127 - (rank >> 45))::int AS priority, count(*) FROM jobs WHERE rank IS NOT NULL GROUP BY 1, 2
