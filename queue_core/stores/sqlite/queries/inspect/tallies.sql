-- Exact totals by queue, type and outcome, with their buckets.
SELECT q.name, t.type, t.outcome, t.wait_bucket, t.run_bucket, t.n, t.wait_us, t.run_us
  FROM tallies t CROSS JOIN queues q ON q.number = t.queue_id
