-- name: logs_last
-- The last lines of a job's log, oldest first.
SELECT number, token, at, text
  FROM (SELECT number, token, at, text FROM {schema}.job_logs
         WHERE job_id = %(id)s::uuid ORDER BY number DESC LIMIT %(limit)s) newest
 ORDER BY number

-- name: logs_after
-- The lines of a job's log that follow one.
SELECT number, token, at, text FROM {schema}.job_logs
 WHERE job_id = %(id)s::uuid AND number > %(after)s ORDER BY number LIMIT %(limit)s

-- name: registered
-- What is known of these types.
SELECT type, schema FROM {schema}.task_types WHERE type = ANY (%(types)s::text[])

-- name: write
-- Write what has changed about types.
INSERT INTO {schema}.task_types (type, schema)
SELECT * FROM unnest(%(type)s::text[], %(schema)s::text[]) AS i (type, schema)
 ORDER BY type
    ON CONFLICT (type) DO UPDATE SET schema = excluded.schema, announced_at = now()

-- name: types
-- What workers have announced of types.
SELECT type, schema, announced_at FROM {schema}.task_types ORDER BY type

-- name: append
-- Append lines to the logs of jobs whose lease still holds; forget those beyond the newest of each job. Returns these leases.
WITH soft AS MATERIALIZED (
    -- A settle commits synchronously, and with it all that was written before.
    SELECT set_config('synchronous_commit', 'off', true)
), input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(line)s::int[], %(age)s::double precision[], %(text)s::text[])
           AS i (id, token, line, age, text)
), held AS MATERIALIZED (
    -- A transaction that ends the attempt waits for this lock; a row locked by such a one is about to be deleted.
    SELECT l.id, l.token
      FROM (SELECT DISTINCT id, token FROM input) i
     CROSS JOIN LATERAL (SELECT id, token FROM {schema}.leases WHERE id = i.id AND token = i.token FOR KEY SHARE SKIP LOCKED) l
), last AS MATERIALIZED (
    -- Where the attempt's count begins in the job's, and how far it has come.
    SELECT h.id, h.token,
           CASE WHEN p.token = h.token THEN p.number - p.line ELSE coalesce(p.number, 0) END AS start,
           CASE WHEN p.token = h.token THEN p.line ELSE 0 END AS line
      FROM held h
      LEFT JOIN LATERAL (SELECT number, token, line FROM {schema}.job_logs WHERE job_id = h.id ORDER BY number DESC LIMIT 1) p ON true
), new AS MATERIALIZED (
    SELECT i.id, i.token, l.start + i.line AS number, i.line, i.age, i.text,
           max(l.start + i.line) OVER (PARTITION BY i.id) AS newest
      FROM input i JOIN last l ON l.id = i.id AND l.token = i.token AND l.line < i.line
), written AS (
    INSERT INTO {schema}.job_logs (job_id, number, token, line, at, text)
    SELECT n.id, n.number, n.token, n.line, now() - make_interval(secs => n.age), n.text
      FROM new n, soft
     WHERE n.number > n.newest - %(keep)s
        ON CONFLICT (job_id, number) DO NOTHING
), forgotten AS (
    DELETE FROM {schema}.job_logs
     WHERE ctid = ANY (ARRAY(SELECT l.ctid
                               FROM (SELECT DISTINCT id, newest FROM new) n
                              CROSS JOIN LATERAL (SELECT ctid FROM {schema}.job_logs
                                                   WHERE job_id = n.id AND number <= n.newest - %(keep)s OFFSET 0) l))
)
SELECT id::text, token FROM held

-- name: logs_dropped
-- Whether a job is known, and how many lines of its log are not kept any more.
SELECT EXISTS (SELECT FROM {schema}.all_jobs WHERE id = %(id)s::uuid),
       (SELECT coalesce(max(number), 0) - count(*) FROM {schema}.job_logs WHERE job_id = %(id)s::uuid)

-- name: forget_logs
-- Forget the lines of jobs that are gone, among the next ones by their key; returns the last key and the number looked at.
WITH scanned AS MATERIALIZED (
    SELECT job_id, number FROM {schema}.job_logs
     WHERE (job_id, number) > (%(job)s::uuid, %(number)s) ORDER BY job_id, number LIMIT %(limit)s
), orphaned AS MATERIALIZED (
    SELECT k.job_id
      FROM (SELECT DISTINCT job_id FROM scanned) k
     WHERE NOT EXISTS (SELECT FROM {schema}.jobs WHERE id = k.job_id)
       AND NOT EXISTS (SELECT FROM {schema}.jobs_dead WHERE id = k.job_id)
       AND NOT EXISTS (SELECT FROM {schema}.job_history WHERE id = k.job_id)
), forgotten AS (
    DELETE FROM {schema}.job_logs
     WHERE ctid = ANY (ARRAY(SELECT l.ctid
                               FROM scanned k
                              CROSS JOIN LATERAL (SELECT ctid FROM {schema}.job_logs
                                                   WHERE job_id = k.job_id AND number = k.number OFFSET 0) l
                              WHERE (k.job_id IN (SELECT job_id FROM orphaned)) IS TRUE))
)
SELECT job_id::text, number, (SELECT count(*) FROM scanned) FROM scanned ORDER BY job_id DESC, number DESC LIMIT 1

-- name: forget_stacks
-- Make room for one more stack of a job: of those taken, keep the last ones; drop requests that were not answered in a minute.
DELETE FROM {schema}.job_stacks
 WHERE (job_id = %(id)s AND (taken_at IS NULL AND requested_at < now() - interval '1 minute'
                             OR number NOT IN (SELECT number FROM {schema}.job_stacks WHERE job_id = %(id)s
                                                ORDER BY number DESC LIMIT %(of_job)s - 1)))
    OR number <= (SELECT max(number) FROM {schema}.job_stacks) - %(in_all)s

-- name: ask_stack
-- Ask the worker of a running job for its stack, and wake it; returns nothing where the job does not run.
WITH asked AS (
    INSERT INTO {schema}.job_stacks (job_id, worker)
    SELECT id, worker FROM {schema}.leases WHERE id = %(id)s
    RETURNING number, job_id, worker, requested_at
)
SELECT number, job_id::text, worker, requested_at, pg_notify('{channels}_orders', worker) FROM asked

-- name: stacks
-- Return the stacks of a job that were taken, the newest first.
SELECT number, job_id::text, worker, requested_at, taken_at, stack
  FROM {schema}.job_stacks
 WHERE job_id = %(id)s AND taken_at IS NOT NULL
 ORDER BY number DESC
 LIMIT %(limit)s
