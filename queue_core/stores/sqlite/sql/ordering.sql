-- name: take_numbers
-- Reserve numbers of arrival.
UPDATE counters SET seq = seq + ?

-- name: arrived
-- Count jobs that became ready in a queue.
UPDATE queues SET arrived = arrived + ? WHERE number = ?

-- name: unique_forget
-- Forget that a job that goes for good once held a unique key, unless it holds it for a time.
DELETE FROM unique_keys WHERE queue_id = ? AND unique_key = ? AND job = ? AND until IS NULL

-- name: gate_leave
-- Let go of the ordering key of a running job, whose attempt ends.
UPDATE jobs SET holds = NULL WHERE number = ?

-- name: gate_next
-- The jobs that wait for their turn, by their arrival.
SELECT number, id, priority, seq, aged
  FROM jobs INDEXED BY jobs_gate
 WHERE queue_id = ? AND ordering_key = ? AND holds = 0
 ORDER BY seq
 LIMIT ?

-- name: gate_open
-- Let a job through that waited for its turn.
UPDATE jobs SET holds = 1, rank = ? WHERE number = ?

-- name: unique_holder
-- The id of the job that holds a unique key.
SELECT u.id
  FROM unique_keys u LEFT JOIN jobs j ON j.number = u.job
 WHERE u.queue_id = ? AND u.unique_key = ?
   AND (u.until > ? OR u.until IS NULL AND j.place IN ('scheduled', 'queued', 'running', 'retrying'))

-- name: unique_take
-- Give a free unique key to a job.
INSERT INTO unique_keys (queue_id, unique_key, job, id, until) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (queue_id, unique_key) DO UPDATE SET job = excluded.job, id = excluded.id, until = excluded.until

-- name: aging_note
-- Note the last arrival in a queue with aging.
UPDATE queues SET arrival_us = ? WHERE number = ?

-- name: number
-- The last number of arrival that was given out.
SELECT seq FROM counters

-- name: gate_opened
-- How many jobs an ordering key has let through that have not let go of it.
SELECT count(*) FROM jobs INDEXED BY jobs_gate WHERE queue_id = ? AND ordering_key = ? AND holds = 1

-- name: aging_arrival
-- The last arrival in a queue with aging.
SELECT arrival_us FROM queues WHERE number = ?
