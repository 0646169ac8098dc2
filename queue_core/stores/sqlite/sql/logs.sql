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
