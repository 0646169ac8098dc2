-- name: now
-- The store's clock, as it is when the answer is made.
SELECT clock_timestamp()

-- name: server
-- What doctor asks of the server, as one row of names and values; needs no schema, and waits for no lock on a table.
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::int AS version_number,
       current_setting('server_encoding') AS encoding,
       current_setting('fsync')::bool AS fsync,
       current_setting('full_page_writes')::bool AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS read_only,
       current_setting('max_connections')::int AS max_connections,
       (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
       (SELECT extract(epoch FROM now() - min(xact_start))::float8 FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend') AS oldest_transaction_s,
       (SELECT pid FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
           AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1) AS oldest_transaction_pid,
       (SELECT count(*)::int FROM pg_prepared_xacts WHERE database = current_database()) AS prepared_transactions,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', h.kind, 'name', h.name, 'transactions', age(h.xmin))
                                  ORDER BY age(h.xmin) DESC), '[]')
          FROM (SELECT 'replication slot' AS kind, slot_name::text AS name, xmin FROM pg_replication_slots
                UNION ALL
                SELECT 'standby', coalesce(nullif(application_name, ''), host(client_addr), pid::text), backend_xmin
                  FROM pg_stat_replication) h
         WHERE h.xmin IS NOT NULL) AS held_snapshots,
       (SELECT coalesce(array_agg(c.relname::text ORDER BY 1), '{}') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE NOT i.indisvalid AND c.relnamespace = to_regnamespace('{schema}')) AS invalid_indexes,
       -- without a gap from today on; -1: none for today; null: no history
       (SELECT min(n) - 1 FROM generate_series(0, 1000) AS n
         WHERE to_regclass('{schema}.job_history') IS NOT NULL
           AND NOT EXISTS (SELECT FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
                            WHERE h.inhparent = to_regclass('{schema}.job_history')
                              AND right(c.relname, 8) = to_char((now() AT TIME ZONE 'UTC')::date + n, 'YYYYMMDD'))) AS partitions_ahead_days,
       (SELECT jsonb_object_agg(s.relname, jsonb_build_object(
                 'live', s.n_live_tup, 'dead', s.n_dead_tup,
                 'vacuumed_s', extract(epoch FROM now() - greatest(s.last_vacuum, s.last_autovacuum))::float8))
          FROM pg_stat_user_tables s
         WHERE s.relid IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('{schema}'))
           AND s.relname IN ('jobs', 'leases', 'jobs_dead', 'tally_deltas', 'workers')) AS tables,
       pg_backend_pid() AS backend_pid

-- name: locks
-- What holds up the queue: transactions that others wait for on its tables, idle ones that hold locks on them, and those that have
-- locked a whole table against changes. It waits for none of these locks. `bars`: nothing can be read meanwhile, either.
WITH RECURSIVE ours AS MATERIALIZED (
    SELECT c.oid, c.relname::text AS name FROM pg_class c
     WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind IN ('r', 'p')
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
     WHERE a.pid NOT IN (SELECT pid FROM crowds) AND a.pid NOT IN (SELECT pid FROM waiting)
       AND a.pid IN (SELECT h.pid FROM held h
                      WHERE h.granted AND (a.state ~ '^idle in transaction' AND h.mode <> 'AccessShareLock' OR h.locktype = 'relation'
                        AND h.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')))
)
SELECT b.pid, coalesce(a.application_name, '') AS application, coalesce(a.usename::text, '') AS username,
       host(a.client_addr) AS client, coalesce(a.state, '') AS state,
       -- hidden with the state from those who may not see it
       CASE WHEN a.state IS NULL THEN '' ELSE left(a.query, 500) END AS statement,
       EXISTS (SELECT FROM held h
                WHERE h.locktype = 'relation' AND h.mode = 'AccessExclusiveLock'
                  AND (h.pid = b.pid AND h.granted OR h.pid IN (SELECT f.pid FROM behind f WHERE f.blocker = b.pid))) AS bars,
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
