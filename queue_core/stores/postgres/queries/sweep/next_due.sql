-- Return the seconds until the next scheduled or retrying job is due.
SELECT extract(epoch FROM min(run_at) - now())::float8 FROM jobs WHERE rank IS NULL AND status <> 'queued'
