-- Return the queues that are not paused and have ready jobs, or running ones: one look at the index for each queue.
-- (The limit keeps the planner from reading all jobs for a join.)
SELECT q.name
  FROM queues q
 CROSS JOIN LATERAL (SELECT FROM jobs j WHERE j.queue_id = q.id AND j.rank IS NOT NULL ORDER BY j.rank LIMIT 1) one
 WHERE q.paused_at IS NULL
 ORDER BY q.name
