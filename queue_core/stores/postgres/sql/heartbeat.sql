-- name: beat
-- Prolong the leases that still hold, record their progress, renew the worker's entry and fetch its order. No joins with
-- leases: they would read all of them where statistics know of none, and those of ended jobs as well that an open snapshot keeps.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(progress)s::smallint[], %(message)s::text[], %(started)s::bool[])
           AS i (id, token, progress, message, started)
), held AS MATERIALIZED (
    -- A row that a settle has locked is about to go: waiting for it here could only deadlock.
    SELECT l.id, i.progress, i.message, i.started
      FROM input i
     CROSS JOIN LATERAL (SELECT id FROM {schema}.leases WHERE id = i.id AND token = i.token FOR NO KEY UPDATE SKIP LOCKED) l
), renewals AS MATERIALIZED (
    SELECT array_agg(id ORDER BY id) AS ids, array_agg(progress ORDER BY id) AS progress,
           array_agg(message ORDER BY id) AS message, array_agg(started ORDER BY id) AS started
      FROM held
), renewed AS (
    UPDATE {schema}.leases l
       SET (expires_at, progress, message, started) = (
           SELECT now() + make_interval(secs => %(lease)s), greatest(l.progress, least(100, coalesce(n.progress[p.position], 0))),
                  CASE WHEN n.progress[p.position] IS NULL THEN l.message ELSE n.message[p.position] END, l.started OR n.started[p.position]
             FROM renewals n, width_bucket(l.id, n.ids) AS p (position))
     WHERE l.id = ANY (ARRAY(SELECT id FROM held))
), before AS MATERIALIZED (
    SELECT command FROM {schema}.workers WHERE id = %(worker)s
), entry AS (
    INSERT INTO {schema}.workers AS w (id, host, pid, version, queues, types, concurrency, busy, quiet, interval_s, place, process, stuck,
                                       release)
    SELECT %(worker)s, %(host)s, %(pid)s, %(version)s, %(queues)s::text[], %(types)s::text[], %(concurrency)s, %(busy)s,
           %(quiet)s, %(interval)s, %(place)s, %(process)s, %(stuck)s, %(release)s
      FROM soft
        ON CONFLICT (id) DO UPDATE
       SET heartbeat_at = now(), queues = excluded.queues, types = excluded.types, concurrency = excluded.concurrency,
           busy = excluded.busy, quiet = excluded.quiet, interval_s = excluded.interval_s,
           place = excluded.place, process = excluded.process, stuck = excluded.stuck, release = excluded.release,
           command = CASE WHEN w.command = coalesce((SELECT command FROM before), '') THEN '' ELSE w.command END
)
-- A lease that is there but was locked is not lost: it is answered like a renewed one.
SELECT i.id::text, false, ''
  FROM input i
 CROSS JOIN LATERAL (SELECT FROM {schema}.leases l WHERE l.id = i.id AND l.token = i.token OFFSET 0) l
UNION ALL
SELECT id::text, true, '' FROM {schema}.leases WHERE worker = %(worker)s AND cancel
UNION ALL
SELECT '', false, command FROM before
UNION ALL
-- The other workers at this place, on request.
SELECT id, NULL, process FROM {schema}.workers WHERE %(look)s AND place = %(place)s AND place <> '' AND process <> '' AND id <> %(worker)s

-- name: strays
-- Return what some claims, and all up to a number, have given to a worker.
SELECT l.id::text, l.token, q.name, j.type, j.ordering_key
  FROM {schema}.leases l
 CROSS JOIN LATERAL (SELECT queue_id, type, ordering_key FROM {schema}.jobs j WHERE j.id = l.id OFFSET 0) j
  JOIN {schema}.queues q ON q.id = j.queue_id
 WHERE l.worker = %(worker)s AND (l.claim = ANY (%(claims)s::int[]) OR l.claim BETWEEN 1 AND %(until)s)

-- name: hand_back
-- End the leases of a worker's claims up to a number but for some jobs, as not started: the next reclaim releases them.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), held AS MATERIALIZED (
    SELECT l.id FROM {schema}.leases l, soft WHERE l.worker = %(worker)s AND l.claim <= %(last)s AND l.id <> ALL (%(started)s::uuid[])
       FOR NO KEY UPDATE OF l SKIP LOCKED
)
UPDATE {schema}.leases SET expires_at = now() - interval '1 second', started = false WHERE id = ANY (ARRAY(SELECT id FROM held))

-- name: arrived
-- Notify the workers at a place of a new one.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('{channels}_orders', %(place)s)

-- name: stack_requests
-- Return requests for stacks that a worker has not answered.
SELECT number, job_id::text FROM {schema}.job_stacks WHERE worker = %(worker)s AND taken_at IS NULL ORDER BY number LIMIT 10

-- name: give_stack
-- Keep the answer to a request.
UPDATE {schema}.job_stacks SET taken_at = clock_timestamp(), stack = %(text)s WHERE number = %(number)s AND taken_at IS NULL
