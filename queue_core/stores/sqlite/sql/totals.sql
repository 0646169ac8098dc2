-- name: signature
-- What an error is called, and when it was first seen.
SELECT title, first_seen FROM error_signatures WHERE signature = ?

-- name: deaths
-- Deaths by error and queue in each minute from one on.
SELECT minute, signature, queue_id, n FROM signature_minutes WHERE minute >= ?

-- name: tally
-- Add to the totals of one kind of outcome.
INSERT INTO tallies (queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET n = n + excluded.n, wait_us = wait_us + excluded.wait_us, run_us = run_us + excluded.run_us

-- name: tally_minute
-- Add to what happened in a minute.
INSERT INTO minutes (minute, queue_id, outcome, n) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: tally_death
-- Add to the deaths by one error in a minute.
INSERT INTO signature_minutes (minute, signature, queue_id, n) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: tally_release
-- Add to the deaths by one error on one release.
INSERT INTO signature_releases (signature, release, n, first_at, last_at, last_started) VALUES (?1, ?2, ?3, ?4, ?4, ?5)
    ON CONFLICT DO UPDATE SET n = n + excluded.n, last_at = excluded.last_at, last_started = max(last_started, excluded.last_started)

-- name: tally_return
-- Keep the first death on a release since the error was last resolved; see signatures/note_resolved.
INSERT INTO signature_releases (signature, release, n, first_at, last_at, last_started)
SELECT ?1 || ' ' || n, ?2, ?3, ?4, ?4, ?5 FROM signature_releases
 WHERE signature = ?1 || ' resolved' AND release = 0 AND ?4 > first_at AND (?5 > first_at OR last_started = 0 AND ?2 <> 0)
    ON CONFLICT DO NOTHING

-- name: tally_runs
-- Add to what became of the jobs of one type on one release.
INSERT INTO type_releases (type, release, completed, dead, last_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE
   SET completed = completed + excluded.completed, dead = dead + excluded.dead, last_at = max(last_at, excluded.last_at)

-- name: groups
-- Groups of dead jobs by error, queue and type; without conditions on anything else it is read from the index alone.
SELECT coalesce(j.signature, ''), j.queue_id, q.name, j.type, count(*), max(j.updated_at)
  FROM jobs j {dead_index} CROSS JOIN queues q ON q.number = j.queue_id{payloads}
 WHERE {dead_state}
   AND {conditions}
 GROUP BY 1, 2, 4

-- name: series
-- What happened in each of some minutes.
SELECT minute, outcome, n
  FROM minutes
 WHERE minute BETWEEN :first AND :last
   AND (:queue IS NULL OR queue_id = (SELECT number FROM queues WHERE name = :queue))

-- name: deaths_of
-- Deaths by error and queue in each minute from a time on, of jobs that match a filter.
SELECT CAST(j.updated_at / 60 AS INTEGER), coalesce(j.signature, ''), j.queue_id, count(*)
  FROM jobs j {dead_index} CROSS JOIN queues q ON q.number = j.queue_id{payloads}
 WHERE {dead_state} AND j.updated_at >= :since
   AND {conditions}
 GROUP BY 1, 2, 3

-- name: tallies
-- Exact totals by queue, type and outcome, with their buckets.
SELECT q.name, t.type, t.outcome, t.wait_bucket, t.run_bucket, t.n, t.wait_us, t.run_us
  FROM tallies t CROSS JOIN queues q ON q.number = t.queue_id

-- name: removed
-- How many jobs left the store for good, and how many attempts were retried.
SELECT outcome, sum(n) FROM tallies
 WHERE outcome IN ('expired_completed', 'expired_cancelled', 'expired_dead', 'purged', 'retried')
 GROUP BY outcome

-- name: sample
-- The newest job of a group.
SELECT j.id
  FROM jobs j {dead_index} CROSS JOIN queues q ON q.number = j.queue_id{payloads}
 WHERE {dead_state} AND j.signature IS nullif(:signature, '')
   AND {conditions}
 ORDER BY {order}
 LIMIT 1

-- name: in_state
-- How many jobs are in a state.
SELECT count(*) FROM jobs INDEXED BY jobs_listed WHERE state = ?
