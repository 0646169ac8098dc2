-- name: create
-- Write a new operation.
INSERT INTO operations (verb, label, author_user, author_host, why, delay, spread, queue, priority, canary, rate, stop_percent, first_failure,
                        ramp, begin_at, when_release, counted, signatures, state, created_at, updated_at)
VALUES (:verb, :label, :user, :host, :why, :delay, :spread, :queue, :priority, :canary, :rate, :stop_percent, :first_failure, :ramp,
        :begin_at, :when_release, :counted, :signatures, 'preparing', :now, :now)
RETURNING number

-- name: sign
-- Store an error signature of which an operation has all jobs.
INSERT OR IGNORE INTO operation_signatures (signature, operation) VALUES (?, ?)

-- name: unchanged
-- Those of the next members whose jobs are as they were frozen.
SELECT m.position, m.job_id
  FROM operation_members m CROSS JOIN jobs j ON j.id = m.job_id
 WHERE m.operation = ? AND m.position > ? AND m.position <= ? AND j.token = m.token
 ORDER BY m.position

-- name: mark
-- Mark a member as changed by its operation.
UPDATE operation_members SET changed = 1 WHERE operation = ? AND position = ?

-- name: write
-- Write what changes of an operation.
UPDATE operations
   SET state = :state, note = :note, total = :total, done = :done, processed = :processed, skipped = :skipped, errored = :errored,
       barrier = :barrier, stop_percent = :stop_percent, updated_at = :updated_at, started_at = :started_at,
       finished_at = :finished_at, next_at = :next_at
 WHERE number = :number

-- name: add
-- Append a member that an operation does not have yet, as its job is now: without a token where it had not ended at a time.
INSERT INTO operation_members (operation, position, job_id, token, queue)
SELECT :number, :position, :id,
       CASE WHEN :chosen IS NULL OR (j.state IN ('completed', 'dead', 'cancelled', 'trashed') AND j.updated_at <= :chosen)
            THEN j.token END,
       coalesce(q.name, '')
  FROM (SELECT 1) LEFT JOIN jobs j ON j.id = :id LEFT JOIN queues q ON q.number = j.queue_id
 WHERE true
    ON CONFLICT (job_id, operation) DO NOTHING

-- name: unfinished
-- Those of them that have not ended.
SELECT number
  FROM operations INDEXED BY operations_unfinished
 WHERE finished_at IS NULL AND number < :before
 ORDER BY number DESC
 LIMIT :limit

-- name: newest
-- Operations older than a number, the newest first.
SELECT number FROM operations WHERE number < :before ORDER BY number DESC LIMIT :limit

-- name: by_signature
-- Those of them that have an error signature.
SELECT s.operation
  FROM operation_signatures s CROSS JOIN operations o ON o.number = s.operation
 WHERE s.signature = :signature AND s.operation < :before AND (o.finished_at IS NULL OR NOT :unfinished)
 ORDER BY s.operation DESC
 LIMIT :limit

-- name: records
-- Operations by their numbers, in the same order.
SELECT o.number, verb, label, author_user, author_host, why, delay, spread, queue, priority, canary, rate, stop_percent, signatures, state, note,
       total, done, processed, skipped, errored, barrier, created_at, updated_at, started_at, finished_at, next_at, first_failure, ramp,
       begin_at, when_release, outcomes
  FROM json_each(?) i CROSS JOIN operations o ON o.number = i.value
 ORDER BY i.key

-- name: changed
-- Members that an operation has changed, behind a position.
SELECT m.position, m.job_id, m.queue
  FROM operation_members m INDEXED BY operation_members_changed
 WHERE m.operation = ? AND m.changed = 1 AND m.position > ?
 ORDER BY m.position
 LIMIT ?

-- name: mark_all
-- Mark all members of an operation as changed.
UPDATE operation_members SET changed = 1 WHERE operation = ?

-- name: outcomes
-- Where the last members between two places are now that an operation has changed (null = gone), and how many of them have failed since.
SELECT j.state, count(*), count(*) FILTER (WHERE j.retry_count > 0)
  FROM (SELECT job_id FROM operation_members INDEXED BY operation_members_changed
         WHERE operation = ? AND changed = 1 AND position > ? AND position <= ? ORDER BY position DESC LIMIT ?) m
  LEFT JOIN jobs j ON j.id = m.job_id
 GROUP BY j.state

-- name: of_job
-- The operations that have changed a job, the newest first.
SELECT operation
  FROM operation_members INDEXED BY operation_members_job
 WHERE job_id = ? AND changed = 1
 ORDER BY operation DESC
 LIMIT ?

-- name: note_outcomes
-- Note what became of the members of an operation, and whether that is all that will be known.
UPDATE operations SET outcomes = ?, counted = ? WHERE number = ? AND counted = 0

-- name: uncounted
-- Retries whose outcomes are not known for good, the newest first.
SELECT number
  FROM operations INDEXED BY operations_uncounted
 WHERE counted = 0 AND state <> 'preparing'
 ORDER BY number DESC
 LIMIT ?

-- name: pending
-- Members of an operation that no step has taken yet, in their order.
SELECT job_id
  FROM operation_members
 WHERE operation = ?1 AND position > (SELECT done FROM operations WHERE number = ?1)
 ORDER BY position
 LIMIT ?2
