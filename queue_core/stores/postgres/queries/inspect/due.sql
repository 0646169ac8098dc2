-- The types of the jobs that become ready next.
SELECT type, count(*) FROM (SELECT type FROM jobs WHERE rank IS NULL ORDER BY run_at LIMIT %(limit)s) AS first GROUP BY 1
