-- name: worker_results
-- What is known about jobs; a result that is over its retention is gone.
SELECT j.id, CASE j.state WHEN 'trashed' THEN 'dead' ELSE j.state END, CASE WHEN j.finished_at > :since THEN j.result END, j.error,
       j.state = 'completed' AND j.finished_at <= :since
  FROM (SELECT DISTINCT value FROM json_each(:ids)) i CROSS JOIN jobs j ON j.id = i.value

-- name: expired
-- Running jobs whose lease is over. There are never many running jobs, so they are looked through.
SELECT j.number, j.id, j.queue_id, q.name, j.type, j.state, j.priority, j.seq, j.run_at, j.retry_count, j.crashes, j.token,
       j.last_outcome, j.worker, j.started_at, j.cancel, j.started, j.aged_rank, j.ordering_key, q.keeps_counts, j.losses,
       j.release
  FROM jobs j INDEXED BY jobs_listed CROSS JOIN queues q ON q.number = j.queue_id
 WHERE j.state = 'running' AND j.expires_at < ?
 LIMIT ?

-- name: attempt
-- Keep an attempt that failed.
INSERT INTO job_attempts (job, token, number, kind, exception, message, traceback, signature, worker, started_at, finished_at,
                          release)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: signature
-- Keep what an error is called, from its first time on.
INSERT OR IGNORE INTO error_signatures (signature, title, exception, first_seen) VALUES (?, ?, ?, ?)

-- name: held
-- What ends of attempts need to know of these jobs.
SELECT j.number, j.id, j.queue_id, q.name, j.type, j.state, j.priority, j.seq, j.run_at, j.retry_count, j.crashes, j.token,
       j.last_outcome, j.worker, j.started_at, j.cancel, j.started, j.aged_rank, j.ordering_key, q.keeps_counts, j.losses,
       j.release
  FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN queues q ON q.number = j.queue_id

-- name: complete
-- Move a running job to completed.
UPDATE jobs
   SET state = 'completed', last_outcome = 'completed', finished_at = ?1, updated_at = ?1, expires_at = NULL, cancel = 0, progress = 100,
       message = '', result = ?2
 WHERE number = ?3

-- name: cancel
-- Move a running job to cancelled.
UPDATE jobs
   SET state = 'cancelled', last_outcome = ?2, finished_at = ?1, updated_at = ?1, expires_at = NULL, cancel = 0, progress = 0, message = '',
       error = coalesce(?3, error), signature = coalesce(?4, signature), kind = coalesce(?5, kind), losses = ?6
 WHERE number = ?7

-- name: retry
-- Move a running job to retrying, due at a time.
UPDATE jobs
   SET state = 'retrying', last_outcome = 'retrying', updated_at = ?1, run_at = ?2, retry_count = retry_count + 1,
       error = coalesce(?3, error), signature = coalesce(?4, signature), kind = coalesce(?5, kind),
       worker = NULL, started_at = NULL, progress = 0, message = '', expires_at = NULL, cancel = 0
 WHERE number = ?6

-- name: bury
-- Move a running job to dead, with what its last attempt left.
UPDATE jobs
   SET state = 'dead', last_outcome = ?2, finished_at = ?1, updated_at = ?1, expires_at = NULL, cancel = 0,
       error = coalesce(?3, error), signature = coalesce(?4, signature), kind = coalesce(?5, kind), crashes = ?6, losses = ?7
 WHERE number = ?8

-- name: release
-- Move a running job back to queued.
UPDATE jobs
   SET state = 'queued', last_outcome = 'released', updated_at = ?1, rank = ?2, losses = losses + ?4,
       error = coalesce(?5, error), signature = coalesce(?6, signature), kind = coalesce(?7, kind),
       worker = NULL, started_at = NULL, progress = 0, message = '', expires_at = NULL, cancel = 0
 WHERE number = ?3

-- name: reschedule
-- Move a running job back to queued or scheduled, as one that arrives now.
UPDATE jobs
   SET state = ?3, last_outcome = 'released', updated_at = ?1, rank = ?2, seq = ?4, run_at = ?5, aged_rank = ?7, admitted = ?8,
       worker = NULL, started_at = NULL, progress = 0, message = '', expires_at = NULL, cancel = 0
 WHERE number = ?6

-- name: take_back
-- Move a running job whose worker was lost back to queued.
UPDATE jobs
   SET state = 'queued', updated_at = ?1, rank = ?2, error = coalesce(?3, error),
       signature = coalesce(?4, signature), kind = coalesce(?5, kind), losses = ?6,
       worker = NULL, started_at = NULL, progress = 0, message = '', expires_at = NULL, cancel = 0
 WHERE number = ?7

-- name: outcome_of
-- How the worker ended an attempt before a job's last one.
SELECT kind FROM attempt_outcomes WHERE job = ? AND token = ?
