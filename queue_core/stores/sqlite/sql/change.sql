-- name: move
-- Give a waiting job to another queue or priority, with the order of one that arrives there now.
UPDATE jobs SET queue_id = ?1, priority = ?2, ordering_key = ?3, seq = ?4, aged = ?5, rank = ?6, holds = ?7 WHERE number = ?8

-- name: move_dead
-- Give a dead job to another queue or priority.
UPDATE jobs SET queue_id = ?1, priority = ?2, ordering_key = ?3, holds = NULL WHERE number = ?4

-- name: retry
-- Move a finished job to queued or scheduled, with the order of one that arrives now.
UPDATE jobs
   SET place = ?1, seq = ?2, rank = ?3, run_at = ?4, updated_at = ?5, aged = ?7, holds = ?8, queue_id = ?9, priority = ?10,
       ordering_key = ?11, retry_count = 0, losses = 0, finished_at = NULL, trashed_at = NULL, result = NULL, worker = NULL,
       started_at = NULL, progress = 0, message = ''
 WHERE number = ?6

-- name: delete
-- Move a dead job to the trash.
UPDATE jobs SET place = 'trashed', trashed_at = ?1, updated_at = ?1, holds = NULL WHERE number = ?2

-- name: restore
-- Move a job from the trash back into the DLQ, at the time of its death.
UPDATE jobs SET place = 'dead', trashed_at = NULL, updated_at = finished_at WHERE number = ?

-- name: ask
-- Ask the worker of a running job to stop it.
UPDATE jobs SET cancel = 1 WHERE number = ?

-- name: cancel
-- Move a waiting job to cancelled.
UPDATE jobs SET place = 'cancelled', rank = NULL, holds = NULL, finished_at = ?1, updated_at = ?1, ended = NULL WHERE number = ?2

-- name: renew
-- Give a job a new token, so that an operation that had chosen it before passes it over.
UPDATE jobs SET token = ?, ended = NULL WHERE number = ?

-- name: jobs
-- What changes need to know of these jobs, in the order of their ids.
SELECT j.number, j.id, j.queue_id, q.name, j.type, j.place, j.priority, j.run_at, j.cancel, j.ordering_key, j.holds,
       j.unique_key, j.unique_seconds, q.counted, j.token, j.ended
  FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN queues q ON q.number = j.queue_id
 ORDER BY i.key

-- name: pause
-- Pause a queue.
UPDATE queues SET paused_at = :now WHERE number = :number AND paused_at IS NULL

-- name: resume
-- Resume a queue, and let other processes see that there may be something to claim.
UPDATE queues SET paused_at = NULL, arrived = arrived + :backlog WHERE number = :number AND paused_at IS NOT NULL

-- name: command
-- Leave an order for a worker, which its next heartbeat takes.
UPDATE workers SET command = ? WHERE id = ?
