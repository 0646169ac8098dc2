-- Every worker that announced itself, with the seconds since its heartbeat and whether it is taken for lost.
SELECT id, host, pid, version, queues, types, concurrency, busy, quiet, started_at, heartbeat_at,
       extract(epoch FROM now() - heartbeat_at)::float8, heartbeat_at <= now() - make_interval(secs => 3 * interval_s), stuck
  FROM workers
 ORDER BY id
