-- name: payloads
-- Write a job's payload and headers.
INSERT INTO payloads (number, payload, headers) VALUES (?, ?, ?)

-- name: queue
-- Create a queue.
INSERT INTO queues (name) VALUES (?)

-- name: jobs
-- Write a job as queued or scheduled.
INSERT INTO jobs (number, id, queue_id, type, state, priority, seq, rank, run_at, max_retries, tags, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?1, ?7, ?8, ?9, ?10, ?11, ?11)

-- name: with_rules
-- Write a job that rules apply to as queued or scheduled. Apart from insert/jobs, which is a sixth faster.
INSERT INTO jobs (number, id, queue_id, type, state, priority, seq, rank, run_at, max_retries, tags, created_at, updated_at,
                  aged_rank, ordering_key, admitted, unique_key, unique_seconds)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?1, ?7, ?8, ?9, ?10, ?11, ?11, ?12, ?13, ?14, ?15, ?16)

-- name: known
-- Which of these ids are known already.
SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?))

-- name: queues
-- The numbers of queues by their names, whether they count their jobs, and whether they are closed.
SELECT name, number, keeps_counts, closed_at IS NOT NULL FROM queues WHERE name IN (SELECT value FROM json_each(?))

-- name: files
-- The files that a connection is to.
PRAGMA database_list
