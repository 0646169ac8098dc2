-- Who holds up the queue: transactions that others wait for on its tables, and idle ones that hold locks on them.
WITH RECURSIVE ours AS MATERIALIZED (
    SELECT c.oid, c.relname::text AS name FROM pg_class c
     WHERE c.relnamespace = current_schema()::regnamespace
       AND (c.relname IN ('queues', 'jobs', 'leases', 'lease_epoch', 'lease_epoch_live', 'jobs_dead', 'error_signatures',
                          'job_attempts', 'workers', 'leaders', 'tally_deltas', 'tallies', 'minutes', 'signature_minutes',
                          'order_gates', 'order_checks', 'job_keys', 'queue_rooms', 'queue_returns', 'queue_starts',
                          'queue_arrivals', 'schedules', 'schedule_ticks', 'job_logs', 'task_types', 'operations',
                          'operation_members', 'job_history')
            OR c.relkind = 'r' AND c.relname ~ '^job_history_[0-9]{8}$')
), held AS MATERIALIZED (
    SELECT l.pid, o.name, l.granted, l.locktype, l.mode FROM pg_locks l JOIN ours o ON o.oid = l.relation
     WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND l.pid <> pg_backend_pid()
), waiting AS MATERIALIZED (
    -- What asks for rows has locks on their tables already, and waits for the end of a transaction. Not all of a crowd are looked at.
    SELECT l.pid, l.waitstart, pg_blocking_pids(l.pid) AS blockers FROM pg_locks l
     WHERE NOT l.granted AND l.pid IN (SELECT h.pid FROM held h WHERE NOT h.granted OR h.mode <> 'AccessShareLock')
     ORDER BY l.waitstart LIMIT 100
), behind (blocker, pid) AS (
    SELECT DISTINCT b.pid, w.pid FROM waiting w, unnest(w.blockers) AS b (pid)
    UNION
    SELECT further.pid, b.pid FROM behind b JOIN waiting w ON w.pid = b.blocker, unnest(w.blockers) AS further (pid)
), crowds AS (
    SELECT b.blocker AS pid, count(DISTINCT b.pid)::int AS waiters,
           extract(epoch FROM clock_timestamp() - min(w.waitstart))::float8 AS waiting_s,
           (array_agg(b.pid ORDER BY w.waitstart, b.pid))[1] AS first
      FROM behind b JOIN waiting w USING (pid)
     WHERE b.blocker NOT IN (SELECT pid FROM waiting) GROUP BY 1
), blockers AS (
    SELECT pid, waiters, waiting_s, first FROM crowds
    UNION ALL
    SELECT a.pid, 0, NULL, NULL FROM pg_stat_activity a
     WHERE a.state ~ '^idle in transaction' AND a.pid NOT IN (SELECT pid FROM crowds) AND a.pid NOT IN (SELECT pid FROM waiting)
       AND a.pid IN (SELECT h.pid FROM held h WHERE h.granted AND h.mode <> 'AccessShareLock')
)
SELECT b.pid, coalesce(a.application_name, '') AS application, host(a.client_addr) AS client, coalesce(a.state, '') AS state,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS open_s, b.waiters, b.waiting_s, b.first AS waiter,
       coalesce(w.application_name, '') AS waiter_application,
       ARRAY(SELECT DISTINCT h.name FROM held h WHERE h.pid = b.pid AND h.granted AND h.mode <> 'AccessShareLock' ORDER BY 1) AS tables,
       -- Where the first one waits: the table in which it has put itself into line for a row; else those that both write into.
       coalesce(nullif(ARRAY(SELECT DISTINCT h.name FROM held h WHERE h.pid = b.first AND (h.locktype = 'tuple' OR NOT h.granted)), '{}'),
                ARRAY(SELECT h.name FROM held h WHERE h.pid = b.first AND h.mode <> 'AccessShareLock'
                      INTERSECT SELECT h.name FROM held h WHERE h.pid = b.pid AND h.mode <> 'AccessShareLock' ORDER BY 1)) AS asked,
       count(*) OVER ()::int AS found
  FROM blockers b LEFT JOIN pg_stat_activity a ON a.pid = b.pid LEFT JOIN pg_stat_activity w ON w.pid = b.first
 ORDER BY greatest(extract(epoch FROM clock_timestamp() - a.xact_start), b.waiting_s) DESC NULLS LAST, b.pid LIMIT %(limit)s
