-- name: take_numbers
-- Reserve numbers of arrival.
UPDATE counters SET seq = seq + ?

-- name: count_ready
-- Count jobs that became ready in a queue.
UPDATE queues SET ready_total = ready_total + ? WHERE number = ?

-- name: unique_forget
-- Forget the unique key of a job that is removed, unless it is held for a time.
DELETE FROM unique_keys WHERE queue_id = ? AND key = ? AND job = ? AND expires_at IS NULL

-- name: release_key
-- Release the ordering key of a running job, whose attempt ends.
UPDATE jobs SET admitted = NULL WHERE number = ?

-- name: next_jobs
-- The jobs that wait for their ordering key, by their arrival.
SELECT number, id, priority, seq, aged_rank
  FROM jobs INDEXED BY jobs_ordering
 WHERE queue_id = ? AND ordering_key = ? AND admitted = 0
 ORDER BY seq
 LIMIT ?

-- name: admit
-- Admit a job that waited for its ordering key.
UPDATE jobs SET admitted = 1, rank = ? WHERE number = ?

-- name: unique_holder
-- The id of the job that holds a unique key.
SELECT u.job_id
  FROM unique_keys u LEFT JOIN jobs j ON j.number = u.job
 WHERE u.queue_id = ? AND u.key = ?
   AND (u.expires_at > ? OR u.expires_at IS NULL AND j.state IN ('scheduled', 'queued', 'running', 'retrying'))

-- name: unique_take
-- Give a free unique key to a job.
INSERT INTO unique_keys (queue_id, key, job, job_id, expires_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (queue_id, key) DO UPDATE SET job = excluded.job, job_id = excluded.job_id, expires_at = excluded.expires_at

-- name: aging_record
-- Store the last arrival in a queue with aging.
UPDATE queues SET arrival_us = ? WHERE number = ?

-- name: number
-- The last number of arrival that was given out.
SELECT seq FROM counters

-- name: admitted
-- How many jobs an ordering key has admitted that have not released it.
SELECT count(*) FROM jobs INDEXED BY jobs_ordering WHERE queue_id = ? AND ordering_key = ? AND admitted = 1

-- name: aging_arrival
-- The last arrival in a queue with aging.
SELECT arrival_us FROM queues WHERE number = ?
