-- Prolong the leases that still hold, record their progress, renew the worker's entry and fetch its order.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(progress)s::smallint[], %(message)s::text[], %(begun)s::bool[])
           AS i (id, token, progress, message, begun)
), held AS MATERIALIZED (
    -- A row that a settle has locked is about to go: waiting for it here could only deadlock.
    SELECT l.id, i.progress, i.message, i.begun
      FROM leases l JOIN input i ON i.id = l.id AND i.token = l.token
       FOR NO KEY UPDATE OF l SKIP LOCKED
), renewed AS (
    UPDATE leases l
       SET expires_at = now() + make_interval(secs => %(lease)s),
           progress = greatest(l.progress, least(100, coalesce(h.progress, 0))),
           message = CASE WHEN h.progress IS NULL THEN l.message ELSE h.message END,
           begun = l.begun OR h.begun
      FROM held h
     WHERE l.id = h.id
    RETURNING l.id
), before AS MATERIALIZED (
    SELECT command FROM workers WHERE id = %(worker)s
), entry AS (
    INSERT INTO workers AS w (id, host, pid, version, queues, types, concurrency, busy, quiet, interval_s)
    SELECT %(worker)s, %(host)s, %(pid)s, %(version)s, %(queues)s::text[], %(types)s::text[], %(concurrency)s, %(busy)s,
           %(quiet)s, %(interval)s
      FROM soft
        ON CONFLICT (id) DO UPDATE
       SET heartbeat_at = now(), queues = excluded.queues, types = excluded.types, concurrency = excluded.concurrency,
           busy = excluded.busy, quiet = excluded.quiet, interval_s = excluded.interval_s,
           command = CASE WHEN w.command = coalesce((SELECT command FROM before), '') THEN '' ELSE w.command END
)
-- A lease that is there but was locked is not lost: it is answered like a renewed one.
SELECT i.id::text, false, ''
  FROM input i JOIN leases l ON l.id = i.id AND l.token = i.token LEFT JOIN renewed r ON r.id = i.id
UNION ALL
SELECT id::text, true, '' FROM leases WHERE worker = %(worker)s AND cancel
UNION ALL
SELECT '', false, command FROM before
