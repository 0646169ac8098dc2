-- name: clocks
-- Both clocks as they were last stored.
SELECT wall, steady, machine FROM clocks

-- name: reserve_tokens
-- Skip to the ceiling, below which tokens may have been given out by commits that were lost, and raise it. In a file that was restored
-- they may have been given out beyond it, but no faster than one a microsecond: it goes on at the microseconds since 2025.
UPDATE counters SET token = max(token_ceiling, :microseconds), token_ceiling = max(token_ceiling, :microseconds) + :count

-- name: tokens
-- The last token that was given out, and the last that may be.
SELECT token, token_ceiling FROM counters

-- name: use_tokens
-- Give out tokens.
UPDATE counters SET token = token + ?

-- name: open_queue
-- A queue that is not paused: its number, whether it counts its jobs, and its rate's tokens as of a time.
SELECT number, keeps_counts, tokens, refilled_at FROM queues WHERE name = ? AND paused_at IS NULL

-- name: start
-- Move a ready job to running.
UPDATE jobs
   SET state = 'running', rank = NULL, token = ?1, last_outcome = NULL, worker = ?2, started_at = ?3, updated_at = ?3, expires_at = ?4,
       started = ?5, claim = ?6, release = ?7
 WHERE number = ?8

-- name: live_types
-- The queues and types of each worker whose last heartbeat is not three intervals old.
SELECT queues, types FROM workers WHERE ? - heartbeat_at <= 3 * interval_s

-- name: worker_renew
-- Prolong a lease.
UPDATE jobs SET expires_at = ?, started = max(started, ?) WHERE id = ?

-- name: worker_renew_progress
-- Prolong a lease and record progress, which never falls.
UPDATE jobs SET expires_at = ?, started = max(started, ?), progress = max(progress, ?), message = ? WHERE id = ?

-- name: worker_command
-- The order that waits for a worker.
SELECT command FROM workers WHERE id = ?

-- name: keep_outcome
-- Remember how an attempt ended before the next one begins.
INSERT OR IGNORE INTO attempt_outcomes (job, token, kind) VALUES (?, ?, ?)

-- name: claimable
-- Those of these jobs that are ready in this queue and of these types, by rank.
SELECT j.id, j.rank
  FROM json_each(:ids) i CROSS JOIN jobs j ON j.id = i.value
 WHERE j.queue_id = :queue_id AND j.rank IS NOT NULL AND (:types IS NULL OR j.type IN (SELECT value FROM json_each(:types)))
 ORDER BY j.rank

-- name: worker_entry
-- Make or renew a worker's entry; the order it had was taken.
INSERT INTO workers (id, host, pid, version, queues, types, concurrency, busy, quiet, interval_s, started_at, heartbeat_at,
                     place, process, stuck, release)
VALUES (:id, :host, :pid, :version, :queues, :types, :concurrency, :busy, :quiet, :interval, :now, :now, :place, :process, :stuck,
        :release)
    ON CONFLICT (id) DO UPDATE
   SET heartbeat_at = excluded.heartbeat_at, host = excluded.host, pid = excluded.pid, version = excluded.version,
       queues = excluded.queues, types = excluded.types, concurrency = excluded.concurrency, busy = excluded.busy,
       quiet = excluded.quiet, interval_s = excluded.interval_s, place = excluded.place, process = excluded.process, command = '',
       stuck = excluded.stuck, release = excluded.release

-- name: record_clocks
-- Store what the clocks show.
UPDATE clocks SET wall = ?, steady = ?, machine = ?

-- name: ranks
-- The best ranks of the ready jobs of one type, read from the index alone.
SELECT rank, number FROM jobs INDEXED BY jobs_ready WHERE queue_id = ? AND type = ? AND rank IS NOT NULL ORDER BY rank LIMIT ?

-- name: worker_held
-- The tokens of those of these jobs that run.
SELECT j.id, j.token FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value WHERE j.state = 'running'

-- name: by_ids
-- Those of the nominated jobs that are ready in this queue, by rank.
SELECT j.number, j.id, j.type, p.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
       j.token, j.last_outcome, j.ordering_key, j.losses, p.headers
  FROM json_each(:ids) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN payloads p ON p.number = j.number
 WHERE j.queue_id = :queue_id AND j.rank IS NOT NULL AND (:types IS NULL OR j.type IN (SELECT value FROM json_each(:types)))
 ORDER BY j.rank
 LIMIT :limit

-- name: by_rank
-- The ready jobs of one type of best rank, with everything a worker needs.
SELECT j.number, j.id, j.type, p.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
       j.token, j.last_outcome, j.ordering_key, j.losses, p.headers
  FROM jobs j INDEXED BY jobs_ready CROSS JOIN payloads p ON p.number = j.number
 WHERE j.queue_id = :queue_id AND j.type = :type AND j.rank IS NOT NULL
 ORDER BY j.rank
 LIMIT :limit

-- name: by_numbers
-- Jobs by their numbers, with everything a worker needs, in the order of the numbers given.
SELECT j.number, j.id, j.type, p.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
       j.token, j.last_outcome, j.ordering_key, j.losses, p.headers
  FROM json_each(?) i CROSS JOIN jobs j ON j.number = i.value CROSS JOIN payloads p ON p.number = j.number

-- name: ready_types
-- The types of which a queue has ready jobs, stepping from one to the next in the index.
WITH RECURSIVE ready (type) AS (
    SELECT min(type) FROM jobs INDEXED BY jobs_ready WHERE queue_id = :queue_id AND rank IS NOT NULL
    UNION ALL
    SELECT (SELECT min(j.type) FROM jobs j INDEXED BY jobs_ready
             WHERE j.queue_id = :queue_id AND j.type > ready.type AND j.rank IS NOT NULL)
      FROM ready WHERE ready.type IS NOT NULL
)
SELECT type FROM ready WHERE type IS NOT NULL

-- name: worker_hand_back
-- End the leases of a worker's claims up to a number but for some jobs, as not started.
UPDATE jobs INDEXED BY jobs_listed SET expires_at = 0, started = 0
 WHERE state = 'running' AND worker = :worker AND claim <= :last AND id NOT IN (SELECT value FROM json_each(:started))

-- name: worker_neighbours
-- The other workers at a place.
SELECT id, process FROM workers WHERE place = ? AND id <> ? AND process <> ''

-- name: worker_strays
-- What some claims, and all up to a number, have given to a worker. There are never many running jobs, so they are looked through.
SELECT j.id, j.token, q.name, j.type, j.ordering_key
  FROM jobs j INDEXED BY jobs_listed CROSS JOIN queues q ON q.number = j.queue_id
 WHERE j.state = 'running' AND j.worker = :worker
   AND (j.claim IN (SELECT value FROM json_each(:claims)) OR j.claim BETWEEN 1 AND :until)

-- name: worker_cancelled
-- The jobs of a worker with a cancel request.
SELECT id FROM jobs INDEXED BY jobs_cancelled WHERE cancel = 1 AND worker = ?

-- name: move_leaders
-- Move the ends of leaderships along with a clock that was set.
UPDATE leaders SET expires_at = expires_at + :seconds

-- name: move_leases
-- Move the ends of leases along with a clock that was set.
UPDATE jobs SET expires_at = expires_at + :seconds WHERE state = 'running'

-- name: move_operations
-- Move the times before which rates of operations allow no step along with a clock that was set.
UPDATE operations INDEXED BY operations_unfinished
   SET next_at = next_at + :seconds
 WHERE finished_at IS NULL AND next_at > 0.0

-- name: move_refills
-- Move the refills of rates along with a clock that was set.
UPDATE queues SET refilled_at = refilled_at + :seconds WHERE tokens IS NOT NULL

-- name: move_retries
-- Move the ends of backoffs along with a clock that was set; a scheduled job may be meant for a time of day.
UPDATE jobs SET run_at = run_at + :seconds WHERE state = 'retrying'

-- name: move_unique
-- Move the ends of unique keys along with a clock that was set.
UPDATE unique_keys SET expires_at = expires_at + :seconds WHERE expires_at IS NOT NULL

-- name: move_workers
-- Move heartbeats along with a clock that was set.
UPDATE workers SET heartbeat_at = heartbeat_at + :seconds

-- name: ids
-- The ids of jobs by their numbers, in the same order.
SELECT j.id FROM json_each(?) i CROSS JOIN jobs j ON j.number = i.value ORDER BY i.key

-- name: ready_after
-- A page of a queue's ready jobs in order: for a rebuild, which reads the whole backlog anyway.
SELECT id, rank
  FROM jobs INDEXED BY jobs_ready
 WHERE queue_id = (SELECT number FROM queues WHERE name = :queue) AND rank IS NOT NULL AND rank > :rank
 ORDER BY rank
 LIMIT :limit
