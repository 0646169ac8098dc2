-- name: move
-- Give a waiting job to another queue or priority, with the order of one that arrives there now.
UPDATE jobs SET queue_id = ?1, priority = ?2, ordering_key = ?3, seq = ?4, aged_rank = ?5, rank = ?6, admitted = ?7 WHERE number = ?8

-- name: move_dead
-- Give a dead job to another queue or priority.
UPDATE jobs SET queue_id = ?1, priority = ?2, ordering_key = ?3, admitted = NULL WHERE number = ?4

-- name: retry
-- Move a finished job to queued or scheduled, with the order of one that arrives now.
UPDATE jobs
   SET state = ?1, seq = ?2, rank = ?3, run_at = ?4, updated_at = ?5, aged_rank = ?7, admitted = ?8, queue_id = ?9, priority = ?10,
       ordering_key = ?11, retry_count = 0, losses = 0, finished_at = NULL, trashed_at = NULL, result = NULL, worker = NULL,
       started_at = NULL, progress = 0, message = ''
 WHERE number = ?6

-- name: delete
-- Move a dead job to the trash.
UPDATE jobs SET state = 'trashed', trashed_at = ?1, updated_at = ?1, admitted = NULL WHERE number = ?2

-- name: restore
-- Move a job from the trash back into the DLQ, at the time of its death.
UPDATE jobs SET state = 'dead', trashed_at = NULL, updated_at = finished_at WHERE number = ?

-- name: request_cancel
-- Ask the worker of a running job to stop it.
UPDATE jobs SET cancel = 1 WHERE number = ?

-- name: cancel
-- Move a waiting job to cancelled.
UPDATE jobs SET state = 'cancelled', rank = NULL, admitted = NULL, finished_at = ?1, updated_at = ?1 WHERE number = ?2

-- name: renew
-- Give a job a new token, so that an operation that had chosen it before skips it.
UPDATE jobs SET token = ?, last_outcome = NULL WHERE number = ?

-- name: jobs
-- What changes need to know of these jobs, in the order of their ids.
SELECT j.number, j.id, j.queue_id, q.name, j.type, j.state, j.priority, j.run_at, j.cancel, j.ordering_key, j.admitted,
       j.unique_key, j.unique_seconds, q.keeps_counts, j.token, j.last_outcome
  FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN queues q ON q.number = j.queue_id
 ORDER BY i.key

-- name: pause
-- Pause a queue.
UPDATE queues SET paused_at = :now WHERE number = :number AND paused_at IS NULL

-- name: resume
-- Resume a queue that is paused or closed, and count jobs as ready, which other processes see.
UPDATE queues SET paused_at = NULL, closed_at = NULL, ready_total = ready_total + :backlog
 WHERE number = :number AND (paused_at IS NOT NULL OR closed_at IS NOT NULL)

-- name: close
-- Close a queue, or open it.
UPDATE queues SET closed_at = CASE WHEN :closed THEN :now END WHERE number = :number AND (closed_at IS NOT NULL) <> :closed

-- name: command
-- Leave an order for a worker, which its next heartbeat takes.
UPDATE workers SET command = ? WHERE id = ?
