-- Return the seconds until the next scheduled or retrying job is due that was not due long ago; null: there is none. Not by min(): as long as its statistics
-- say that there are few, PostgreSQL before 17 reads all of them for that.
SELECT extract(epoch FROM (SELECT run_at FROM jobs WHERE rank IS NULL AND status <> 'queued'
                               AND run_at > now() - make_interval(secs => %(back)s)
                            ORDER BY run_at LIMIT 1) - now())::float8
