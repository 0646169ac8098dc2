-- What the leader has to do, in one look: the seconds until the next job that was not due long ago and the next tick are due (null:
-- there is none), and whether jobs are ready or running (which keep their rank), ordering keys are noted, or operations have not
-- ended. All by indexes. What ended stands in front of what is ready: whether there is any is not asked where it is assumed.
SELECT extract(epoch FROM (SELECT run_at FROM jobs WHERE rank IS NULL AND status <> 'queued'
                              AND run_at > now() - make_interval(secs => %(back)s)
                            ORDER BY run_at LIMIT 1) - clock_timestamp())::float8,
       extract(epoch FROM (SELECT min(next_tick) FROM schedules WHERE paused_at IS NULL) - clock_timestamp())::float8,
       %(busy)s OR EXISTS (SELECT FROM queues q CROSS JOIN LATERAL
                             (SELECT FROM jobs j WHERE j.queue_id = q.id AND j.rank IS NOT NULL ORDER BY j.rank LIMIT 1) one),
       EXISTS (SELECT FROM order_checks),
       EXISTS (SELECT FROM operations WHERE finished_at IS NULL)
