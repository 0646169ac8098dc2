-- Exact totals by queue, type and outcome, with their buckets: what is folded and what is not yet.
SELECT q.name, t.type, t.outcome, t.wait_bucket::int, t.run_bucket::int, sum(t.n)::bigint, sum(t.wait_us)::bigint,
       sum(t.run_us)::bigint
  FROM (SELECT queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us FROM tallies
        UNION ALL
        SELECT queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us FROM tally_deltas) t
  JOIN queues q ON q.id = t.queue_id
 GROUP BY 1, 2, 3, 4, 5
 ORDER BY 1, 2, 3
