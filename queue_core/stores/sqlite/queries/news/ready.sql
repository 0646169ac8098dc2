-- Queues with ready jobs.
SELECT q.name FROM queues q WHERE EXISTS (SELECT 1 FROM jobs j INDEXED BY jobs_ready WHERE j.queue_id = q.number AND j.rank IS NOT NULL)
