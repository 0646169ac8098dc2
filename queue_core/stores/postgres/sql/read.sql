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
