-- name: held
-- The jobs among these that run, with their tokens and the number of the last line in their logs.
SELECT j.id, j.number, j.token, l.number, l.token, l.line
  FROM json_each(?) i
 CROSS JOIN jobs j ON j.id = i.value AND j.state = 'running'
  LEFT JOIN job_logs l ON l.job = j.number AND l.number = (SELECT max(number) FROM job_logs WHERE job = j.number)

-- name: write
-- Write what has changed about a type.
INSERT INTO task_types (type, schema, announced_at) VALUES (?, ?, ?)
    ON CONFLICT (type) DO UPDATE SET schema = excluded.schema, announced_at = excluded.announced_at

-- name: append
-- Append a line to the log of a job.
INSERT INTO job_logs (job, number, token, line, at, text) VALUES (?, ?, ?, ?, ?, ?)

-- name: forget
-- Forget the lines of a job up to one.
DELETE FROM job_logs WHERE job = ? AND number <= ?

-- name: types
-- What workers have announced of types.
SELECT type, schema, announced_at FROM task_types ORDER BY type

-- name: logs_dropped
-- A job's number, and how many lines of its log are not kept any more.
SELECT j.number, (SELECT coalesce(max(number), 0) - count(*) FROM job_logs WHERE job = j.number) FROM jobs j WHERE j.id = ?

-- name: logs_last
-- The last lines of a job's log, oldest first.
SELECT * FROM (SELECT number, token, at, text FROM job_logs WHERE job = ? ORDER BY number DESC LIMIT ?) ORDER BY number

-- name: logs_after
-- The lines of a job's log that follow one.
SELECT number, token, at, text FROM job_logs WHERE job = ? AND number > ? ORDER BY number LIMIT ?

-- name: forget_stacks
-- Make room for one more stack of a job: of those taken, keep the last ones; drop requests that were not answered in a minute.
DELETE FROM job_stacks
 WHERE (job_id = :id AND (taken_at IS NULL AND requested_at < :now - 60
                          OR number NOT IN (SELECT number FROM job_stacks WHERE job_id = :id ORDER BY number DESC LIMIT :of_job - 1)))
    OR number <= (SELECT max(number) FROM job_stacks) - :in_all

-- name: ask_stack
-- Ask the worker of a running job for its stack; returns nothing where the job does not run.
INSERT INTO job_stacks (job_id, worker, requested_at)
SELECT id, worker, :now FROM jobs WHERE id = :id AND state = 'running' AND worker IS NOT NULL
RETURNING number, job_id, worker, requested_at

-- name: stacks
-- Return the stacks of a job that were taken, the newest first.
SELECT number, job_id, worker, requested_at, taken_at, stack
  FROM job_stacks
 WHERE job_id = ? AND taken_at IS NOT NULL
 ORDER BY number DESC
 LIMIT ?

-- name: stack_requests
-- Requests for stacks that a worker has not answered.
SELECT number, job_id FROM job_stacks INDEXED BY job_stacks_asked WHERE worker = ? AND taken_at IS NULL ORDER BY number LIMIT 10

-- name: give_stack
-- Keep the answer to a request.
UPDATE job_stacks SET taken_at = ?, stack = ? WHERE number = ? AND taken_at IS NULL
