-- Jobs that wait for their ordering key, by type and priority, and since when the longest of them waits.
SELECT type, priority, count(*), min(run_at) FROM jobs INDEXED BY jobs_gate WHERE queue_id = ? AND holds = 0 GROUP BY type, priority
