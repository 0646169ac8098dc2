-- name: abandoned_operations
-- End the operations that were being prepared and whose author is gone.
UPDATE operations INDEXED BY operations_unfinished
   SET state = 'cancelled', note = :note, updated_at = :now, finished_at = :now
 WHERE finished_at IS NULL AND state = 'preparing' AND updated_at < :before

-- name: expired_operations
-- The operations that ended before a time, the first ones first.
SELECT number FROM operations INDEXED BY operations_finished WHERE finished_at < ? ORDER BY finished_at LIMIT ?

-- name: expired
-- Jobs that came to a final state before a time, the first ones first.
SELECT jobs.number, jobs.queue_id, q.name, jobs.type, jobs.ordering_key, jobs.admitted, jobs.unique_key
  FROM jobs INDEXED BY jobs_listed CROSS JOIN queues q ON q.number = jobs.queue_id
 WHERE jobs.state = ? AND jobs.updated_at < ?
 ORDER BY jobs.updated_at
 LIMIT ?

-- name: titles
-- The next error signatures, and of each whether it was first seen before a time and no dead job, in the trash or not, has it.
SELECT e.signature, e.first_seen < :before
       AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_dead
                        WHERE state IN ('dead', 'trashed') AND state = 'dead' AND signature = e.signature)
       AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_dead
                        WHERE state IN ('dead', 'trashed') AND state = 'trashed' AND signature = e.signature)
  FROM (SELECT signature, first_seen FROM error_signatures WHERE signature > :after ORDER BY signature LIMIT :limit) e
 ORDER BY e.signature

-- name: remove_title
-- Forget the title of an error signature.
DELETE FROM error_signatures WHERE signature = ?

-- name: remove_facts
-- Forget what operators have set of an error signature.
DELETE FROM signature_states WHERE signature = ?

-- name: remove_deaths
-- Forget the deaths of an error signature by release, and those since it was resolved.
DELETE FROM signature_releases WHERE signature = ?1 OR signature > ?1 || ' ' AND signature < ?1 || '!'

-- name: trim_unique
-- Delete some unique keys without a holder.
DELETE FROM unique_keys
 WHERE (queue_id, key) IN (SELECT queue_id, key FROM unique_keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)

-- name: due
-- Scheduled and retrying jobs that are due, for the longest time first.
SELECT j.number, j.id, j.queue_id, q.name, j.priority, j.seq, j.aged_rank, j.ordering_key, j.admitted
  FROM jobs j INDEXED BY jobs_due CROSS JOIN queues q ON q.number = j.queue_id
 WHERE j.state IN ('scheduled', 'retrying') AND j.run_at <= ?
 ORDER BY j.run_at, j.seq
 LIMIT ?

-- name: promote
-- Move a due job to queued.
UPDATE jobs SET state = 'queued', rank = ?, updated_at = ? WHERE number = ?

-- name: promote_keyed
-- Move a due job to queued, ready or to wait for its ordering key.
UPDATE jobs SET state = 'queued', rank = ?, admitted = ?, updated_at = ? WHERE number = ?

-- name: next_due
-- When the next scheduled or retrying job is due.
SELECT run_at FROM jobs INDEXED BY jobs_due WHERE state IN ('scheduled', 'retrying') ORDER BY run_at LIMIT 1

-- name: leader
-- Until when a worker leads a duty.
SELECT expires_at FROM leaders WHERE duty = ? AND worker = ?

-- name: worker_retire
-- Remove a worker's entry after its end.
DELETE FROM workers WHERE id = ?

-- name: worker_resign
-- Remove a worker's leaderships after its end.
DELETE FROM leaders WHERE worker = ?

-- name: remove_members
-- Forget members of an operation, the first ones first.
DELETE FROM operation_members
 WHERE operation = ?1 AND position IN (SELECT position FROM operation_members WHERE operation = ?1 ORDER BY position LIMIT ?2)

-- name: remove_signatures
-- Forget the error signatures of which an operation has all jobs.
DELETE FROM operation_signatures WHERE operation = ?

-- name: preparing_operation
-- An operation, if it is preparing.
SELECT 1 FROM operations WHERE number = ? AND state = 'preparing'

-- name: remove_operation
-- Forget an operation.
DELETE FROM operations WHERE number = ?

-- name: expired_logs
-- Forget lines of the jobs that upkeep/expired finds, a batch.
DELETE FROM job_logs
 WHERE rowid IN (SELECT l.rowid
                   FROM (SELECT number FROM jobs INDEXED BY jobs_listed
                          WHERE state = ? AND updated_at < ? ORDER BY updated_at LIMIT ?) j
                  CROSS JOIN job_logs l ON l.job = j.number
                  LIMIT ?)

-- name: trim_schedule_ticks
-- Forget some ticks that passed before a time.
DELETE FROM schedule_ticks WHERE (schedule, tick) IN (SELECT schedule, tick FROM schedule_ticks WHERE tick < ? ORDER BY tick LIMIT ?)

-- name: lead
-- Take or renew the leadership of a duty, unless another worker holds it.
INSERT INTO leaders (duty, worker, expires_at) VALUES (:duty, :worker, :until)
    ON CONFLICT (duty) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at
 WHERE worker = excluded.worker OR expires_at < :now

-- name: worker_end_leases
-- End the leases of a worker whose process is gone.
UPDATE jobs INDEXED BY jobs_listed SET expires_at = 0 WHERE state = 'running' AND worker = ?

-- name: remove_attempts
-- Forget the attempts of a job.
DELETE FROM job_attempts WHERE job = ?

-- name: remove_outcomes
-- Forget how the attempts of a job ended.
DELETE FROM attempt_outcomes WHERE job = ?

-- name: remove_job
-- Forget a job.
DELETE FROM jobs WHERE number = ?

-- name: remove_logs
-- Forget the log of a job.
DELETE FROM job_logs WHERE job = ?

-- name: remove_payload
-- Forget the payload of a job.
DELETE FROM payloads WHERE number = ?

-- name: trim_leaders
-- Forget leaderships that ended long ago.
DELETE FROM leaders WHERE expires_at < ?

-- name: trim_listeners
-- Forget listeners that are gone.
DELETE FROM listeners WHERE expires_at < ?

-- name: trim_messages
-- Forget events that every listener has read by now.
DELETE FROM messages WHERE sent_at < ?

-- name: trim_minutes
-- Forget minutes that no series shows any more.
DELETE FROM minutes WHERE minute < ?

-- name: trim_signature_minutes
-- Forget minutes that no trend shows any more.
DELETE FROM signature_minutes WHERE minute < ?

-- name: trim_workers
-- Forget workers that were lost long ago.
DELETE FROM workers WHERE heartbeat_at < ?
