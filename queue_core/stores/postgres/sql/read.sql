-- name: heads
-- The first ready jobs of each queue and priority, by rank: since when the longest of them waits, and their types. Within a
-- priority jobs are ranked as they arrived, so the oldest is among the first unless hundreds of older ones came back late. A queue
-- with aging is one order, and its priority null.
-- (The upper end of a priority's ranks is excluded: with it inside, the planner reads and sorts the whole priority.)
SELECT g.queue_id, h.type, count(*), min(h.run_at)
  FROM unnest(%(queue_ids)s::int[], %(priorities)s::int[]) AS g (queue_id, priority)
 CROSS JOIN LATERAL (
       SELECT j.rank, j.type, j.run_at FROM {schema}.jobs j
        WHERE j.queue_id = g.queue_id
          AND j.rank >= coalesce((127 - g.priority)::bigint << 45, 0)
          AND coalesce((SELECT false FROM {schema}.leases l WHERE l.id = j.id), true)
        ORDER BY j.rank
        LIMIT %(limit)s) h
 WHERE g.priority IS NULL OR h.rank < (128 - g.priority)::bigint << 45
 GROUP BY 1, 2

-- name: aged_depths
-- Jobs with a rank in queues with aging, by queue and priority, ready and running ones alike.
SELECT queue_id, priority::int, count(*) FROM {schema}.jobs
 WHERE rank IS NOT NULL AND queue_id = ANY (%(aging)s::int[]) GROUP BY 1, 2

-- name: ping
-- Answer, to measure the way.
SELECT 1

-- name: now
-- The store's clock.
SELECT now()

-- name: queues
-- Every queue with whether it is paused, and closed.
SELECT q.id, q.name, q.paused_at IS NOT NULL, q.closed_at IS NOT NULL FROM {schema}.queues q ORDER BY q.name

-- name: due
-- The types of the jobs that become ready next, by queue.
SELECT queue_id, type, count(*)
  FROM (SELECT queue_id, type FROM {schema}.jobs WHERE rank IS NULL AND status <> 'queued' ORDER BY run_at LIMIT %(limit)s) AS first
 GROUP BY 1, 2

-- name: running
-- Running jobs by queue and priority, and how many of them have not begun.
SELECT j.queue_id, j.priority::int, count(*), count(*) FILTER (WHERE NOT l.started)
  FROM {schema}.leases l
 CROSS JOIN LATERAL (SELECT queue_id, priority FROM {schema}.jobs WHERE id = l.id OFFSET 0) j
 GROUP BY 1, 2

-- name: blocked
-- Queued jobs that wait for their ordering keys, by queue, priority and type, and since when the longest of them waits.
SELECT queue_id, priority::int, type, count(*), min(run_at)
  FROM {schema}.jobs WHERE ordering_key IS NOT NULL AND NOT admitted AND status = 'queued' GROUP BY 1, 2, 3

-- name: waiting
-- Scheduled and retrying jobs by queue.
SELECT queue_id, status::text, count(*) FROM {schema}.jobs WHERE rank IS NULL AND status <> 'queued' GROUP BY 1, 2

-- name: dead
-- Dead jobs by queue, those in the trash apart.
SELECT queue_id, false, count(*) FROM {schema}.jobs_dead WHERE trashed_at IS NULL GROUP BY 1
UNION ALL
SELECT queue_id, true, count(*) FROM {schema}.jobs_dead WHERE trashed_at IS NOT NULL GROUP BY 1

-- name: page
-- A page of jobs over the views that can hold them, each read in order and no further than the page.
SELECT * FROM ({views}) AS page ORDER BY {order} LIMIT %(limit)s

-- name: page_view
-- The part of a page from one view: first which jobs, by narrow rows, then what is shown of them. Long texts stay
-- behind, for a page is bounded in bytes, too.
(SELECT v.id, v.queue, v.type, v.status::text AS status, v.priority, left(v.payload, %(room)s) AS payload, v.tags, v.headers,
        v.retry_count, v.max_retries, v.crashes, v.losses, v.token, v.run_at, v.created_at, v.started_at, v.finished_at, v.updated_at,
        v.error, left(v.result, %(room)s) AS result, v.signature, v.kind, v.progress, v.message, v.worker, v.expires_at,
        v.cancel, v.trashed_at, v.ordering_key, v.unique_key, NULL::text AS traceback,
        (SELECT r.name FROM {schema}.releases r WHERE r.id = v.release) AS release
   FROM (SELECT v.id, v.updated_at FROM {view} v WHERE {conditions} ORDER BY {order} LIMIT %(limit)s) f
   JOIN {view} v ON v.id = f.id AND v.updated_at = f.updated_at)

-- name: recent_view
-- The part of a page from the newest jobs of one view, whether they match or not.
(SELECT v.id, v.queue, v.type, v.status::text AS status, v.priority, left(v.payload, %(room)s) AS payload, v.tags, v.headers,
        v.retry_count, v.max_retries, v.crashes, v.losses, v.token, v.run_at, v.created_at, v.started_at, v.finished_at, v.updated_at,
        v.error, left(v.result, 0) AS result, v.signature, v.kind, v.progress, v.message, v.worker, v.expires_at,
        v.cancel, v.trashed_at, v.ordering_key, v.unique_key, NULL::text AS traceback,
        (SELECT r.name FROM {schema}.releases r WHERE r.id = v.release) AS release
   FROM (SELECT v.id, v.updated_at
           FROM (SELECT * FROM {view} v WHERE v.updated_at < coalesce(%(before)s::timestamptz, 'infinity') ORDER BY {order} LIMIT %(among)s) v
          WHERE {conditions} ORDER BY {order} LIMIT %(limit)s) f
   JOIN {view} v ON v.id = f.id AND v.updated_at = f.updated_at)

-- name: dead_counts
-- The newest dead jobs of an error by queue and type, from the index alone.
SELECT q.name, d.type, d.n
  FROM (SELECT queue_id, type, count(*) AS n
          FROM (SELECT queue_id, type FROM {schema}.jobs_dead WHERE signature = %(signature)s AND trashed_at IS NULL
                 ORDER BY died_at DESC LIMIT %(most)s) n
         GROUP BY 1, 2) d
  JOIN {schema}.queues q ON q.id = d.queue_id
 ORDER BY d.n DESC, 1, 2

-- name: dead_first
-- When the first dead job of an error died.
SELECT min(died_at) FROM {schema}.jobs_dead WHERE signature = %(signature)s AND trashed_at IS NULL

-- name: count
-- How many jobs match, counting no further than a limit.
SELECT count(*) FROM ({views}) AS found

-- name: count_view
-- The matching jobs of one view, no more than a limit.
(SELECT FROM {view} v WHERE {conditions} LIMIT %(limit)s)

-- name: ids
-- The ids of matching jobs in order.
SELECT id::text FROM ({views}) AS found ORDER BY {order} LIMIT %(limit)s

-- name: ids_view
-- The ids of one view in order.
(SELECT v.id, v.updated_at FROM {view} v WHERE {conditions} ORDER BY {order} LIMIT %(limit)s)

-- name: attempts
-- The failed attempts of a job, oldest first.
SELECT a.job_id::text, a.token, a.number, a.kind, a.exception, a.message, a.traceback, a.signature, a.worker, a.started_at,
       a.finished_at, r.name
  FROM {schema}.job_attempts a LEFT JOIN {schema}.releases r ON r.id = a.release
 WHERE a.job_id = %(id)s::uuid
 ORDER BY a.token

-- name: depths
-- Jobs with a rank by queue and priority, ready and running ones alike: read from the ready index alone. In queues with aging
-- the priority does not follow from the rank.
SELECT queue_id, (127 - (rank >> 45))::int AS priority, count(*) FROM {schema}.jobs
 WHERE rank IS NOT NULL AND queue_id <> ALL (%(aging)s::int[]) GROUP BY 1, 2

-- name: facts
-- What doctor asks of the server, as one row of names and values; needs no schema.
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
                 'live', s.n_live_tup, 'dead', s.n_dead_tup, 'bytes', pg_total_relation_size(s.relid),
                 'vacuumed_s', extract(epoch FROM now() - greatest(s.last_vacuum, s.last_autovacuum))::float8))
          FROM pg_stat_user_tables s
         WHERE s.relid IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('{schema}'))
           AND s.relname IN ('jobs', 'leases', 'jobs_dead', 'tally_deltas', 'workers')) AS tables,
       pg_backend_pid() AS backend_pid

-- name: locks
-- What holds up the queue: transactions that others wait for on its tables, and idle ones that hold locks on them.
WITH RECURSIVE ours AS MATERIALIZED (
    SELECT c.oid, c.relname::text AS name FROM pg_class c
     WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind IN ('r', 'p') AND c.relname <> 'schema_version'
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

-- name: workers
-- Every worker that announced itself, with the seconds since its heartbeat and whether it is taken for lost.
SELECT id, host, pid, version, queues, types, concurrency, busy, quiet, started_at, heartbeat_at,
       extract(epoch FROM now() - heartbeat_at)::float8, heartbeat_at <= now() - make_interval(secs => 3 * interval_s), stuck,
       (SELECT r.name FROM {schema}.releases r WHERE r.id = release)
  FROM {schema}.workers
 ORDER BY id

-- name: job
-- One job with everything known about it, wherever it is; the newest should an id have been used again.
SELECT v.id, v.queue, v.type, v.status::text AS status, v.priority, v.payload, v.tags, v.headers,
       v.retry_count, v.max_retries, v.crashes, v.losses, v.token, v.run_at, v.created_at, v.started_at, v.finished_at, v.updated_at,
       v.error, v.result, v.signature, v.kind, v.progress, v.message, v.worker, v.expires_at, v.cancel, v.trashed_at,
       v.ordering_key, v.unique_key,
       (SELECT a.traceback FROM {schema}.job_attempts a WHERE a.job_id = v.id ORDER BY a.token DESC LIMIT 1) AS traceback,
       (SELECT r.name FROM {schema}.releases r WHERE r.id = v.release) AS release
  FROM {schema}.all_jobs v
 WHERE v.id = %(id)s::uuid
 ORDER BY v.updated_at DESC
 LIMIT 1

-- name: exists
-- Whether a job is known.
SELECT EXISTS (SELECT FROM {schema}.all_jobs WHERE id = %(id)s::uuid)
