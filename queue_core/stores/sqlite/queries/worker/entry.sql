-- Make or renew a worker's entry; the order it had was taken.
INSERT INTO workers (id, host, pid, version, queues, types, concurrency, busy, quiet, interval_s, started_at, heartbeat_at,
                     place, process, stuck)
VALUES (:id, :host, :pid, :version, :queues, :types, :concurrency, :busy, :quiet, :interval, :now, :now, :place, :process, :stuck)
    ON CONFLICT (id) DO UPDATE
   SET heartbeat_at = excluded.heartbeat_at, host = excluded.host, pid = excluded.pid, version = excluded.version,
       queues = excluded.queues, types = excluded.types, concurrency = excluded.concurrency, busy = excluded.busy,
       quiet = excluded.quiet, interval_s = excluded.interval_s, place = excluded.place, process = excluded.process, command = '',
       stuck = excluded.stuck
