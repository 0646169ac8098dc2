-- Take or renew the leadership of a duty; a row lock of a moment, so it works through any pooler. Every worker hears that the
-- sweeps have a leader, and so does not ask. The last column: whether the live copy of the lease epoch is there, which a crash of
-- the server takes away. Not on the disk: a leadership that a crash takes back is only taken again.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), led AS (
    INSERT INTO leaders AS l (duty, worker, expires_at)
    SELECT %(duty)s, %(worker)s, now() + make_interval(secs => %(seconds)s) FROM soft
        ON CONFLICT (duty) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at
     WHERE l.worker = excluded.worker OR l.expires_at < now()
    RETURNING worker, duty
)
SELECT worker, CASE WHEN duty = 'sweep' THEN pg_notify('queue_core_leader', worker) END,
       EXISTS (SELECT FROM lease_epoch_live)
  FROM led
