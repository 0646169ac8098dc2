-- What the leader has to do, in one look: the seconds until the next job and the next tick are due (null: there is none), and whether
-- jobs are ready or running (which keep their rank), ordering keys are noted, or operations have not ended. All by indexes.
SELECT extract(epoch FROM (SELECT run_at FROM jobs WHERE rank IS NULL AND status <> 'queued'
                            ORDER BY run_at LIMIT 1) - clock_timestamp())::float8,
       extract(epoch FROM (SELECT min(next_tick) FROM schedules WHERE paused_at IS NULL) - clock_timestamp())::float8,
       EXISTS (SELECT FROM queues q CROSS JOIN LATERAL
                 (SELECT FROM jobs j WHERE j.queue_id = q.id AND j.rank IS NOT NULL ORDER BY j.rank LIMIT 1) one),
       EXISTS (SELECT FROM order_checks),
       EXISTS (SELECT FROM operations WHERE finished_at IS NULL)
