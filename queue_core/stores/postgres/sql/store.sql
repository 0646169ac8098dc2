-- name: lead
-- Take or renew the leadership of a duty; a row lock of a moment, so it works through any pooler. Every worker hears that the
-- sweeps have a leader, and so does not ask. The last column: whether the live copy of the lease epoch is there, which a crash of
-- the server takes away. Not on the disk: a leadership that a crash takes back is only taken again.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), led AS (
    INSERT INTO {schema}.leaders AS l (duty, worker, expires_at)
    SELECT %(duty)s, %(worker)s, now() + make_interval(secs => %(seconds)s) FROM soft
        ON CONFLICT (duty) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at
     WHERE l.worker = excluded.worker OR l.expires_at < now()
    RETURNING worker, duty
)
SELECT worker, CASE WHEN duty = 'sweep' THEN pg_notify('{channels}_leader', worker) END,
       EXISTS (SELECT FROM {schema}.lease_epoch_live)
  FROM led

-- name: leaders
-- Return the workers that lead these duties, or led them last, and for how many seconds from now.
SELECT duty, worker, (extract(epoch FROM expires_at) - extract(epoch FROM now()))::float8 FROM {schema}.leaders WHERE duty = ANY (%(duties)s::text[])

-- name: leaders_here
-- Return which database of which server this is, for a copy has the rows of another one, and the leaders of these duties, as above.
SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || d.oid,
       l.duty, l.worker, (extract(epoch FROM l.expires_at) - extract(epoch FROM now()))::float8
  FROM pg_database d LEFT JOIN {schema}.leaders l ON l.duty = ANY (%(duties)s::text[])
 WHERE d.datname = current_database()

-- name: workload
-- What the leader has to do, in one statement: the seconds until the next job that was not due long ago and the next tick are due (null:
-- there is none), and whether jobs are ready or running (which keep their rank), ordering keys are pending, or operations have not
-- ended. All by indexes. Ended rows come before ready ones: whether there is any is not asked where it is assumed. The last column is
-- the time that the server took, which a busy machine lengthens less than the way to it and back.
SELECT extract(epoch FROM (SELECT run_at FROM {schema}.jobs WHERE rank IS NULL AND status <> 'queued'
                              AND run_at > now() - make_interval(secs => %(back)s)
                            ORDER BY run_at LIMIT 1) - clock_timestamp())::float8,
       extract(epoch FROM (SELECT min(next_tick) FROM {schema}.schedules WHERE paused_at IS NULL) - clock_timestamp())::float8,
       %(busy)s OR EXISTS (SELECT FROM {schema}.queues q CROSS JOIN LATERAL
                             (SELECT FROM {schema}.jobs j WHERE j.queue_id = q.id AND j.rank IS NOT NULL ORDER BY j.rank LIMIT 1) one),
       EXISTS (SELECT FROM {schema}.ordering_pending),
       EXISTS (SELECT FROM {schema}.operations WHERE finished_at IS NULL)
           OR EXISTS (SELECT FROM {schema}.operations WHERE NOT counted),
       extract(epoch FROM clock_timestamp() - statement_timestamp())::float8

-- name: promote
-- Move scheduled and retrying jobs to queued that are due, and were not long ago. Those that come to wait for an ordering key are
-- only named here: that key has to be locked first. So are keys that ordering/add_pending has stored. No join with jobs, which would read
-- all of them, those that ended included while a snapshot is held.
WITH due AS MATERIALIZED (
    SELECT id, queue_id, ordering_key, ordering_key IS NOT NULL AND NOT admitted AS blocked FROM {schema}.jobs
     WHERE rank IS NULL AND status <> 'queued' AND run_at <= now() AND run_at > now() - make_interval(secs => %(back)s)
     ORDER BY run_at
     LIMIT %(limit)s
       FOR NO KEY UPDATE SKIP LOCKED
), ready AS (
    UPDATE {schema}.jobs j
       SET status = 'queued', rank = coalesce(j.aged_rank, (127 - j.priority)::bigint << 45 | j.seq), updated_at = now()
     WHERE j.id = ANY (ARRAY(SELECT id FROM due WHERE NOT blocked))
    RETURNING j.id, j.queue_id, j.rank
)
SELECT ready.id::text, q.name, ready.rank, NULL FROM ready JOIN {schema}.queues q ON q.id = ready.queue_id
UNION ALL
SELECT due.id::text, q.name, NULL, due.ordering_key FROM due JOIN {schema}.queues q ON q.id = due.queue_id WHERE due.blocked
UNION ALL
SELECT NULL, q.name, NULL, c.key FROM (SELECT DISTINCT queue_id, key FROM {schema}.ordering_pending) c JOIN {schema}.queues q ON q.id = c.queue_id
 ORDER BY 3

-- name: worker_write_off
-- Remove the entries and leaderships of workers whose processes are gone, and end their leases, so that the next reclaim takes
-- their jobs back. A locked lease is about to end: waiting for it here could only deadlock.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), held AS MATERIALIZED (
    SELECT l.id FROM {schema}.leases l, soft WHERE l.worker = ANY (%(workers)s::text[]) AND l.expires_at >= now()
       FOR NO KEY UPDATE OF l SKIP LOCKED
), ended AS (
    UPDATE {schema}.leases SET expires_at = now() - interval '1 second' WHERE id = ANY (ARRAY(SELECT id FROM held))
), resigned AS (
    DELETE FROM {schema}.leaders WHERE worker = ANY (%(workers)s::text[])
)
DELETE FROM {schema}.workers WHERE id = ANY (%(workers)s::text[])

-- name: worker_retire
-- Remove a worker's entry and its leaderships after its end; others are notified and try to lead, and those at its place look which
-- workers are there.
WITH resigned AS (
    DELETE FROM {schema}.leaders WHERE worker = %(worker)s RETURNING duty
), removed AS (
    DELETE FROM {schema}.workers WHERE id = %(worker)s RETURNING place
)
SELECT pg_notify('{channels}_leader', '') FROM resigned WHERE duty = 'sweep'
UNION ALL
SELECT pg_notify('{channels}_orders', place) FROM removed WHERE place <> ''

-- name: next_due
-- Return the seconds until the next scheduled or retrying job is due that was not due long ago; null: there is none. Not by min(): as long as its statistics
-- show only few, PostgreSQL before 17 reads all of them for that.
SELECT extract(epoch FROM (SELECT run_at FROM {schema}.jobs WHERE rank IS NULL AND status <> 'queued'
                               AND run_at > now() - make_interval(secs => %(back)s)
                            ORDER BY run_at LIMIT 1) - now())::float8
