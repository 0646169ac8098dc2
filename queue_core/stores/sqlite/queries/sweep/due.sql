-- Scheduled and retrying jobs that are due, for the longest time first.
SELECT j.number, j.id, j.queue_id, q.name, j.priority, j.seq, j.aged, j.ordering_key, j.holds
  FROM jobs j INDEXED BY jobs_due CROSS JOIN queues q ON q.number = j.queue_id
 WHERE j.place IN ('scheduled', 'retrying') AND j.run_at <= ?
 ORDER BY j.run_at, j.seq
 LIMIT ?
