-- name: rehearse_create
-- Write a new operation as operations/create does, but under a negative number of its own: a number of the sequence would be
-- lost with the transaction, and leave a gap in the list of operations.
INSERT INTO {schema}.operations (number, verb, label, author_user, author_host, why, delay, spread, queue, priority, canary, rate,
                        stop_percent, first_failure, ramp, begin_at, when_release, counted, signatures) OVERRIDING SYSTEM VALUE
VALUES (-1 - floor(random() * 2e9)::int, %(verb)s, %(label)s, %(user)s, %(host)s, %(why)s, %(delay)s, %(spread)s, %(queue)s,
        %(priority)s, %(canary)s, %(rate)s, %(stop_percent)s, %(first_failure)s, %(ramp)s::int[], %(begin_at)s::timestamptz,
        %(when_release)s, %(counted)s, %(signatures)s::text[])
RETURNING number

-- name: create
-- Write a new operation, preparing and without members; returns its number.
INSERT INTO {schema}.operations (verb, label, author_user, author_host, why, delay, spread, queue, priority, canary, rate, stop_percent,
                        first_failure, ramp, begin_at, when_release, counted, signatures)
VALUES (%(verb)s, %(label)s, %(user)s, %(host)s, %(why)s, %(delay)s, %(spread)s, %(queue)s, %(priority)s, %(canary)s, %(rate)s,
        %(stop_percent)s, %(first_failure)s, %(ramp)s::int[], %(begin_at)s::timestamptz, %(when_release)s, %(counted)s, %(signatures)s::text[])
RETURNING number

-- name: write
-- Write what a transition has made of a locked operation.
UPDATE {schema}.operations
   SET state = %(state)s, note = %(note)s, total = %(total)s, done = %(done)s, processed = %(processed)s, skipped = %(skipped)s,
       errored = %(errored)s, barrier = %(barrier)s, stop_percent = %(stop_percent)s, updated_at = %(updated_at)s, started_at = %(started_at)s,
       finished_at = %(finished_at)s, next_at = to_timestamp(%(next_at)s::float8)
 WHERE number = %(number)s

-- name: read
-- Return operations, the newest first, each with the time from which its rate allows a step, and that of the server.
SELECT number, verb, label, author_user, author_host, why, delay, spread, queue, priority, canary, rate, stop_percent, signatures,
       state, note, total, done, processed, skipped, errored, barrier, created_at, updated_at, started_at, finished_at,
       extract(epoch FROM next_at)::float8, extract(epoch FROM clock_timestamp())::float8,
       first_failure, ramp, begin_at, when_release, outcomes
  FROM {schema}.operations
 WHERE number = ANY (%(numbers)s::int[])
 ORDER BY number DESC

-- name: members
-- Return the next members of a locked operation.
SELECT job_id, token FROM {schema}.operation_members
 WHERE operation = %(number)s AND position > %(done)s::int AND position <= %(done)s::int + %(count)s::int
 ORDER BY position

-- name: lock
-- Lock an operation; the next statement sees what the transaction did that had it locked before.
SELECT number FROM {schema}.operations WHERE number = %(number)s FOR NO KEY UPDATE

-- name: mark
-- Note which of the next members of a locked operation were changed.
UPDATE {schema}.operation_members SET changed = true
 WHERE operation = %(number)s AND position > %(done)s::int AND position <= %(done)s::int + %(count)s::int AND job_id = ANY (%(changed)s::text[])

-- name: mark_all
-- Note that a locked operation has changed all its members.
UPDATE {schema}.operation_members SET changed = true WHERE operation = %(number)s

-- name: notify
-- Let the leader look for operations that run.
SELECT pg_notify('{channels}_due', '')

-- name: rehearse_dead
-- Write dead jobs of a queue, for the rehearsal of what operators do to them.
INSERT INTO {schema}.jobs_dead (id, queue_id, seq, priority, run_at, type, payload, retry_count, crashes, max_retries, last_token,
                       signature, kind, created_at)
SELECT i.id, q.id, nextval('{schema}.job_seq'), 5, now(), 'rehearsal', '{}', 0, 0, 0, 1, 'rehearsal', 'error', now()
  FROM unnest(%(ids)s::uuid[]) AS i (id), {schema}.queues q
 WHERE q.name = %(queue)s

-- name: changed
-- Return members that were changed, in their order, behind a position.
SELECT position, job_id, queue FROM {schema}.operation_members
 WHERE operation = %(number)s AND changed AND position > %(after)s
 ORDER BY position
 LIMIT %(limit)s

-- name: of_job
-- Return the numbers of the operations that have changed a job, the newest first.
SELECT operation FROM {schema}.operation_members
 WHERE job_id = %(job)s AND changed
 ORDER BY operation DESC
 LIMIT %(limit)s

-- name: outcomes
-- Count what became of the last members that an operation has changed, each looked up by its id.
WITH last AS MATERIALIZED (
    SELECT CASE WHEN token IS NOT NULL THEN job_id::uuid END AS id
      FROM {schema}.operation_members
     WHERE operation = %(number)s AND changed AND position > %(behind)s::int AND position <= %(until)s::int
     ORDER BY position DESC
     LIMIT %(last)s
), found AS MATERIALIZED (
    -- The attempts that have failed since they were retried, of those that are unfinished.
    SELECT l.id, (SELECT j.retry_count FROM {schema}.jobs j WHERE j.id = l.id) AS unfinished,
           (SELECT true FROM {schema}.jobs_dead d WHERE d.id = l.id) AS dead
      FROM last l
), ended AS MATERIALIZED (
    SELECT f.*, h.status, h.retry_count
      FROM found f
      -- Found by their ids and then sorted, for another index has this order.
      LEFT JOIN LATERAL (SELECT status, retry_count
                           FROM (SELECT status, retry_count, finished_at FROM {schema}.job_history h
                                  WHERE h.id = f.id AND f.unfinished IS NULL AND f.dead IS NULL OFFSET 0) h
                          ORDER BY finished_at DESC LIMIT 1) h ON true
)
SELECT count(*), count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE unfinished IS NULL AND dead),
       count(*) FILTER (WHERE unfinished IS NOT NULL), count(*) FILTER (WHERE unfinished > 0),
       count(*) FILTER (WHERE status = 'completed' AND retry_count > 0)
  FROM ended

-- name: note_outcomes
-- Note what became of the members of an operation, and whether that is all that will be known.
UPDATE {schema}.operations SET outcomes = %(outcomes)s::int[], counted = %(final)s WHERE number = %(number)s AND NOT counted RETURNING number

-- name: uncounted
-- Return the numbers of retries whose outcomes are not known for good, the newest first.
SELECT number FROM {schema}.operations WHERE NOT counted AND state <> 'preparing' ORDER BY number DESC LIMIT %(limit)s

-- name: add
-- Append members to a locked operation that is preparing, each with the token and the queue that its job has now, wherever it is:
-- among the unfinished, the dead, or in the history, there the newest. Each is looked up by its id, in the next place only
-- where it was not in the one before. A text that can be no id comes with a null; what is a member already is left out: it is
-- looked up by its job, for statistics know nothing of a new operation and take all of its members for one row. What had not
-- ended at a time, where there is one, has no token: it is skipped.
WITH input AS MATERIALIZED (
    SELECT i.text, i.id, i.position
      FROM unnest(%(texts)s::text[], %(ids)s::uuid[]) WITH ORDINALITY AS i (text, id, position)
     WHERE (SELECT true FROM (SELECT operation FROM {schema}.operation_members m WHERE m.job_id = i.text OFFSET 0) m
             WHERE m.operation = %(number)s) IS NULL
), unfinished AS MATERIALIZED (
    SELECT i.*, j.queue_id, j.token
      FROM input i
      LEFT JOIN LATERAL (SELECT queue_id, coalesce((SELECT l.token FROM {schema}.leases l WHERE l.id = j.id), last_token) AS token
                           FROM {schema}.jobs j WHERE j.id = i.id OFFSET 0) j ON true
), dead AS MATERIALIZED (
    SELECT u.text, u.id, u.position, coalesce(u.queue_id, d.queue_id) AS queue_id, coalesce(u.token, d.last_token) AS token, d.ended_at
      FROM unfinished u
      LEFT JOIN LATERAL (SELECT queue_id, last_token, coalesce(trashed_at, died_at) AS ended_at FROM {schema}.jobs_dead d
                          WHERE d.id = u.id AND u.token IS NULL OFFSET 0) d ON true
), finished AS MATERIALIZED (
    SELECT d.text, d.position, coalesce(d.queue_id, h.queue_id) AS queue_id, coalesce(d.token, h.last_token) AS token,
           coalesce(d.ended_at, h.finished_at) AS ended_at
      FROM dead d
      -- Found by their ids and then sorted, for another index has this order.
      LEFT JOIN LATERAL (SELECT queue_id, last_token, finished_at
                           FROM (SELECT * FROM {schema}.job_history h WHERE h.id = d.id AND d.token IS NULL OFFSET 0) h
                          ORDER BY finished_at DESC LIMIT 1) h ON true
), written AS (
    INSERT INTO {schema}.operation_members (operation, position, job_id, token, queue)
    SELECT o.number, o.total + row_number() OVER (ORDER BY f.position), f.text,
           CASE WHEN %(chosen)s::float8 IS NULL OR f.ended_at <= to_timestamp(%(chosen)s::float8) THEN f.token END,
           coalesce((SELECT name FROM {schema}.queues q WHERE q.id = f.queue_id), '')
      FROM {schema}.operations o CROSS JOIN finished f
     WHERE o.number = %(number)s AND o.state = 'preparing'
    RETURNING 1
)
UPDATE {schema}.operations SET total = total + (SELECT count(*) FROM written), updated_at = clock_timestamp()
 WHERE number = %(number)s AND state = 'preparing'

-- name: find
-- Return the numbers of operations, the newest first: older than a number, not ended, of an error signature.
SELECT number FROM {schema}.operations
 WHERE (%(before)s::int IS NULL OR number < %(before)s::int)
   AND (NOT %(unfinished)s OR finished_at IS NULL)
   AND (%(signature)s::text IS NULL OR signatures @> ARRAY[%(signature)s::text])
 ORDER BY number DESC
 LIMIT %(limit)s

-- name: pause
-- Pause a queue; returns whether the queue exists and whether this changed it.
WITH found AS MATERIALIZED (
    SELECT id FROM {schema}.queues WHERE name = %(queue)s
), changed AS (
    UPDATE {schema}.queues q SET paused_at = now() FROM found f WHERE q.id = f.id AND q.paused_at IS NULL RETURNING q.id
)
SELECT EXISTS (SELECT FROM found), EXISTS (SELECT FROM changed)

-- name: resume
-- Resume a queue that is paused or closed; returns whether the queue exists and whether this changed it.
WITH found AS MATERIALIZED (
    SELECT id FROM {schema}.queues WHERE name = %(queue)s
), changed AS (
    UPDATE {schema}.queues q SET paused_at = NULL, closed_at = NULL
      FROM found f WHERE q.id = f.id AND (q.paused_at IS NOT NULL OR q.closed_at IS NOT NULL)
    RETURNING q.id
)
SELECT EXISTS (SELECT FROM found), EXISTS (SELECT FROM changed)

-- name: close
-- Close a queue to new jobs; returns whether the queue exists and whether this changed it.
WITH found AS MATERIALIZED (
    SELECT id FROM {schema}.queues WHERE name = %(queue)s
), changed AS (
    UPDATE {schema}.queues q SET closed_at = now() FROM found f WHERE q.id = f.id AND q.closed_at IS NULL RETURNING q.id
)
SELECT EXISTS (SELECT FROM found), EXISTS (SELECT FROM changed)

-- name: open
-- Open a queue to new jobs; returns whether the queue exists and whether this changed it.
WITH found AS MATERIALIZED (
    SELECT id FROM {schema}.queues WHERE name = %(queue)s
), changed AS (
    UPDATE {schema}.queues q SET closed_at = NULL FROM found f WHERE q.id = f.id AND q.closed_at IS NOT NULL RETURNING q.id
)
SELECT EXISTS (SELECT FROM found), EXISTS (SELECT FROM changed)

-- name: command
-- Leave an order for a worker, which its next heartbeat takes; it hears of it and beats at once.
WITH ordered AS (
    UPDATE {schema}.workers SET command = %(command)s WHERE id = %(worker)s RETURNING id
)
SELECT id, pg_notify('{channels}_orders', id) FROM ordered

-- name: pending
-- Return the members of an operation that no step has taken yet, in their order.
SELECT job_id FROM {schema}.operation_members
 WHERE operation = %(number)s AND position > (SELECT done FROM {schema}.operations WHERE number = %(number)s)
 ORDER BY position
 LIMIT %(limit)s

-- name: forget
-- Remove an operation that is preparing, with its members: what it was to record was refused. Returns whether there was one.
WITH forgotten AS (
    DELETE FROM {schema}.operations WHERE number = %(number)s AND state = 'preparing' RETURNING number
), removed AS (
    DELETE FROM {schema}.operation_members WHERE operation IN (SELECT number FROM forgotten)
)
SELECT EXISTS (SELECT FROM forgotten)
