-- Every worker that announced itself.
SELECT id, host, pid, version, queues, types, concurrency, busy, quiet, interval_s, started_at, heartbeat_at, stuck
  FROM workers
 ORDER BY id
