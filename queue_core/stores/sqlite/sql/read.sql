-- name: facts
-- What doctor asks of the file: schema, how it is logged, the size of a page, pages in all and free ones.
SELECT (SELECT user_version FROM pragma_user_version), (SELECT journal_mode FROM pragma_journal_mode),
       (SELECT page_size FROM pragma_page_size), (SELECT page_count FROM pragma_page_count),
       (SELECT freelist_count FROM pragma_freelist_count)

-- name: running
-- Running jobs by queue, and whether they have started.
SELECT queue_id, iif(started, 'started', 'ahead'), count(*) FROM jobs INDEXED BY jobs_listed WHERE state = 'running' GROUP BY 1, 2

-- name: waiting
-- Jobs that wait for a time, by queue and state.
SELECT queue_id, state, count(*) FROM jobs INDEXED BY jobs_due WHERE state IN ('scheduled', 'retrying') GROUP BY 1, 2

-- name: dead
-- Dead jobs by queue, those in the trash apart.
SELECT queue_id, state, count(*) FROM jobs INDEXED BY jobs_dead WHERE state IN ('dead', 'trashed') GROUP BY 1, 2

-- name: aged
-- Ready jobs whose priority does not follow from their rank, by type and priority, and since when the longest of them waits.
SELECT type, priority, count(*), min(run_at)
  FROM jobs INDEXED BY jobs_aged
 WHERE queue_id = ? AND aged_rank IS NOT NULL AND rank IS NOT NULL
 GROUP BY type, priority

-- name: blocked
-- Jobs that wait for their ordering key, by type and priority, and since when the longest of them waits.
SELECT type, priority, count(*), min(run_at) FROM jobs INDEXED BY jobs_ordering WHERE queue_id = ? AND admitted = 0 GROUP BY type, priority

-- name: next_group
-- The next type and priority of a queue that has ready jobs, by the rank of its first one.
SELECT type, rank
  FROM jobs INDEXED BY jobs_ready
 WHERE queue_id = ? AND rank IS NOT NULL AND (type, rank) > (?, ?)
 ORDER BY type, rank
 LIMIT 1

-- name: queues
-- Every queue with whether it is paused, and closed.
SELECT number, name, paused_at IS NOT NULL, closed_at IS NOT NULL FROM queues ORDER BY name

-- name: workers
-- Every worker that announced itself.
SELECT id, host, pid, version, queues, types, concurrency, busy, quiet, interval_s, started_at, heartbeat_at, stuck,
       (SELECT r.name FROM releases r WHERE r.number = workers.release)
  FROM workers
 ORDER BY id

-- name: due_types
-- The types of the jobs that become ready next, by queue.
SELECT queue_id, type, count(*)
  FROM (SELECT queue_id, type FROM jobs INDEXED BY jobs_due WHERE state IN ('scheduled', 'retrying') ORDER BY run_at LIMIT ?)
 GROUP BY queue_id, type

-- name: depth
-- How many ready jobs of a type are between two ranks.
SELECT count(*) FROM jobs INDEXED BY jobs_ready WHERE queue_id = ? AND type = ? AND rank BETWEEN ? AND ?

-- name: oldest
-- Since when the longest waits of the first ready jobs of a type between two ranks.
SELECT min(run_at)
  FROM (SELECT run_at FROM jobs INDEXED BY jobs_ready WHERE queue_id = ? AND type = ? AND rank BETWEEN ? AND ? ORDER BY rank LIMIT ?)

-- name: aged_depth
-- How many of them of a type are between two ranks.
SELECT count(*) FROM jobs INDEXED BY jobs_aged WHERE queue_id = ? AND type = ? AND aged_rank IS NOT NULL AND rank BETWEEN ? AND ?

-- name: page
-- A page of the jobs of one state. Long texts stay behind: a page is bounded in bytes, too.
SELECT j.number, j.id, q.name AS queue, j.type, j.state, j.priority, substr(p.payload, 1, :room) AS payload, j.tags,
       j.retry_count, j.max_retries, j.crashes, j.losses, j.token, j.run_at, j.created_at, j.started_at, j.finished_at, j.updated_at,
       j.error, substr(j.result, 1, :room) AS result, j.signature, j.kind, j.progress, j.message, j.worker, j.expires_at,
       j.cancel, j.trashed_at, j.ordering_key, j.unique_key, p.headers, NULL AS traceback,
       (SELECT r.name FROM releases r WHERE r.number = j.release AND j.worker IS NOT NULL) AS release
  FROM jobs j {index} CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number
 WHERE {state}
   AND {conditions}
 ORDER BY {order}
 LIMIT :limit

-- name: recent
-- A page of the newest jobs of one state, whether they match or not.
SELECT j.number, j.id, q.name AS queue, j.type, j.state, j.priority, substr(p.payload, 1, :room) AS payload, j.tags,
       j.retry_count, j.max_retries, j.crashes, j.losses, j.token, j.run_at, j.created_at, j.started_at, j.finished_at, j.updated_at,
       j.error, NULL AS result, j.signature, j.kind, j.progress, j.message, j.worker, j.expires_at,
       j.cancel, j.trashed_at, j.ordering_key, j.unique_key, p.headers, NULL AS traceback,
       (SELECT r.name FROM releases r WHERE r.number = j.release AND j.worker IS NOT NULL) AS release
  FROM (SELECT number FROM jobs INDEXED BY jobs_listed WHERE state = :state AND updated_at < :before
         ORDER BY updated_at DESC, number DESC LIMIT :among) r
 CROSS JOIN jobs j ON j.number = r.number CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number
 WHERE {conditions}
 ORDER BY {order}
 LIMIT :limit

-- name: dead_counts
-- The newest dead jobs of an error by queue and type, from the index alone.
SELECT q.name, d.type, d.n
  FROM (SELECT queue_id, type, count(*) AS n
          FROM (SELECT queue_id, type
                  FROM jobs INDEXED BY jobs_dead
                 WHERE state IN ('dead', 'trashed') AND state = 'dead' AND signature = :signature
                 ORDER BY updated_at DESC
                 LIMIT :most)
         GROUP BY queue_id, type) d
 CROSS JOIN queues q ON q.number = d.queue_id
 ORDER BY d.n DESC, 1, 2

-- name: dead_first
-- When the first dead job of an error died.
SELECT min(updated_at) FROM jobs INDEXED BY jobs_dead
 WHERE state IN ('dead', 'trashed') AND state = 'dead' AND signature = :signature

-- name: ping
-- A round trip.
SELECT 1

-- name: ids
-- The ids of the jobs of one state in order.
SELECT j.number, j.id, j.updated_at
  FROM jobs j {index} CROSS JOIN queues q ON q.number = j.queue_id{payloads}
 WHERE {state}
   AND {conditions}
 ORDER BY {order}
 LIMIT :limit

-- name: attempts
-- The failed attempts of a job, oldest first.
SELECT j.id, a.token, a.number, a.kind, a.exception, a.message, a.traceback, a.signature, a.worker, a.started_at, a.finished_at,
       (SELECT r.name FROM releases r WHERE r.number = a.release)
  FROM jobs j CROSS JOIN job_attempts a ON a.job = j.number
 WHERE j.id = ?
 ORDER BY a.token

-- name: job
-- One job with everything known about it.
SELECT j.id, q.name AS queue, j.type, j.state, j.priority, p.payload, j.tags, j.retry_count, j.max_retries, j.crashes, j.losses, j.token,
       j.run_at, j.created_at, j.started_at, j.finished_at, j.updated_at, j.error, j.result, j.signature, j.kind, j.progress,
       j.message, j.worker, j.expires_at, j.cancel, j.trashed_at, j.ordering_key, j.unique_key, p.headers,
       (SELECT a.traceback FROM job_attempts a WHERE a.job = j.number ORDER BY a.token DESC LIMIT 1) AS traceback,
       (SELECT r.name FROM releases r WHERE r.number = j.release AND j.worker IS NOT NULL) AS release
  FROM jobs j CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number
 WHERE j.id = ?

-- name: count
-- How many jobs of one state match, counting no further than a limit.
SELECT count(*) FROM (
    SELECT 1
      FROM jobs j {index} CROSS JOIN queues q ON q.number = j.queue_id{payloads}
     WHERE {state}
       AND {conditions}
     LIMIT :limit)
