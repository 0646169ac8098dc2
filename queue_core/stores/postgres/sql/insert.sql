-- name: job
-- Write one job as queued or scheduled, in half of the time that insert/jobs takes for it; see there, and insert/new_jobs.
WITH written AS (
    INSERT INTO {schema}.jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, max_retries, headers)
    SELECT %(id)s::uuid, %(queue_id)s::int, CASE WHEN due <= now() THEN (127 - priority)::bigint << 45 | seq END, seq, priority,
           CASE WHEN due <= now() THEN 'queued'::{schema}.job_status ELSE 'scheduled' END,
           due, %(type)s::text, %(payload)s::text, %(tags)s::text[], %(max_retries)s::int, %(headers)s::text
      FROM (SELECT nextval('{schema}.job_seq') AS seq, %(priority)s::smallint AS priority,
                   greatest(now(), coalesce(to_timestamp(%(run_at)s::float8), now() + make_interval(secs => %(delay)s::float8))) AS due) n
    RETURNING rank, run_at
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT (SELECT q.id FROM {schema}.queues q WHERE q.id = %(queue_id)s::int AND q.closed_at IS NULL AND q.name = %(queue)s::text),
           %(type)s::text, 'enqueued', 1
      FROM written
)
SELECT rank, CASE WHEN rank IS NULL THEN extract(epoch FROM run_at)::float8 END FROM written

-- name: new_jobs
-- Do as insert/jobs with jobs of which none is there already: an id that is unfinished is an error. To look for each first takes
-- a fifth of the server's time. The rows are in the order of the arrays, and carry a time only where it is needed.
WITH written AS (
    INSERT INTO {schema}.jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, max_retries, headers)
    SELECT id, queue_id, CASE WHEN due <= now() THEN (127 - priority)::bigint << 45 | seq END, seq, priority,
           CASE WHEN due <= now() THEN 'queued'::{schema}.job_status ELSE 'scheduled' END,
           due, type, payload, tag_list::text[], max_retries, headers
      FROM (SELECT i.*, nextval('{schema}.job_seq') AS seq,
                   greatest(now(), coalesce(to_timestamp(i.run_at), now() + make_interval(secs => i.delay))) AS due
              FROM unnest(%(id)s::uuid[], %(queue_id)s::int[], %(type)s::text[], %(payload)s::text[], %(priority)s::smallint[],
                          %(delay)s::float8[], %(run_at)s::float8[], %(max_retries)s::int[], %(tags)s::text[],
                          %(headers)s::text[])
                   AS i (id, queue_id, type, payload, priority, delay, run_at, max_retries, tag_list, headers)
           ) n
    RETURNING rank, run_at, queue_id, type
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT (SELECT q.id FROM {schema}.queues q
             WHERE q.id = w.queue_id AND q.closed_at IS NULL
               AND q.name = (%(names)s::text[])[array_position(%(numbers)s::int[], q.id)]),
           w.type, 'enqueued', count(*)
      FROM written w GROUP BY w.queue_id, w.type
)
SELECT rank, CASE WHEN rank IS NULL THEN extract(epoch FROM run_at)::float8 END FROM written

-- name: same_jobs
-- Do as insert/new_jobs with jobs that differ in id and payload alone: the server takes a seventh less for them, the client a
-- third. Of the ranks only the first and the number are returned where no other transaction took a place between them. Payloads
-- come as one text with a character between them that no JSON text has: an array is read character by character.
WITH written AS (
    INSERT INTO {schema}.jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, max_retries, headers)
    SELECT id, queue_id, CASE WHEN ready THEN top | seq END, seq, priority, status, due, type, payload, tags, max_retries, headers
      FROM (SELECT i.id, i.payload, nextval('{schema}.job_seq') AS seq, o.*
              FROM (SELECT %(queue_id)s::int AS queue_id, %(type)s::text AS type, %(priority)s::smallint AS priority,
                           (127 - %(priority)s::smallint)::bigint << 45 AS top, due, due <= now() AS ready,
                           CASE WHEN due <= now() THEN 'queued'::{schema}.job_status ELSE 'scheduled' END AS status,
                           %(tags)s::text[] AS tags, %(max_retries)s::int AS max_retries, %(headers)s::text AS headers
                      FROM (SELECT greatest(now(), coalesce(to_timestamp(%(run_at)s::float8),
                                                            now() + make_interval(secs => %(delay)s::float8))) AS due
                            OFFSET 0) d
                    OFFSET 0) o,
                   unnest(%(ids)s::uuid[], string_to_array(%(payloads)s::text, E'\x1f')) AS i (id, payload)
           ) n
    RETURNING rank, run_at
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT (SELECT q.id FROM {schema}.queues q WHERE q.id = %(queue_id)s::int AND q.closed_at IS NULL AND q.name = %(queue)s::text),
           %(type)s::text, 'enqueued', count(*)
      FROM written
)
SELECT min(rank), CASE WHEN max(rank) - min(rank) >= count(*) THEN array_agg(rank) END,
       CASE WHEN min(rank) IS NULL THEN extract(epoch FROM min(run_at))::float8 END
  FROM written

-- name: jobs
-- Write jobs as queued or scheduled; an id that is unfinished already is left alone. Numbers of queues that are closed, or not
-- those of their names any more (a failover has lost them), become NULL where the jobs are counted, once a queue and type: the
-- table refuses that, and nothing is written. Without names these are not compared. `unnest` yields its rows in the order of the
-- arrays.
WITH written AS (
    INSERT INTO {schema}.jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, max_retries, headers)
    SELECT id, queue_id, CASE WHEN due <= now() THEN (127 - priority)::bigint << 45 | seq END, seq, priority,
           CASE WHEN due <= now() THEN 'queued'::{schema}.job_status ELSE 'scheduled' END,
           due, type, payload, tag_list::text[], max_retries, headers
      FROM (SELECT i.*, nextval('{schema}.job_seq') AS seq,
                   greatest(now(), coalesce(to_timestamp(i.run_at), now() + make_interval(secs => i.delay))) AS due
              FROM unnest(%(id)s::uuid[], %(queue_id)s::int[], %(type)s::text[], %(payload)s::text[], %(priority)s::smallint[],
                          %(delay)s::float8[], %(run_at)s::float8[], %(max_retries)s::int[], %(tags)s::text[],
                          %(headers)s::text[])
                   AS i (id, queue_id, type, payload, priority, delay, run_at, max_retries, tag_list, headers)
           ) n
        ON CONFLICT (id) DO NOTHING
    RETURNING id, rank, run_at, queue_id, type
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT CASE WHEN cardinality(%(names)s::text[]) = 0
                THEN CASE WHEN NOT EXISTS (SELECT FROM {schema}.queues q WHERE q.id = w.queue_id AND q.closed_at IS NOT NULL)
                          THEN w.queue_id END
                ELSE (SELECT q.id FROM {schema}.queues q
                       WHERE q.id = w.queue_id AND q.closed_at IS NULL
                         AND q.name = (%(names)s::text[])[array_position(%(numbers)s::int[], q.id)]) END,
           w.type, 'enqueued', count(*)
      FROM written w GROUP BY w.queue_id, w.type
)
SELECT id::text, rank, extract(epoch FROM run_at)::float8 FROM written

-- name: with_rules
-- Write jobs with keys, or in a queue with aging. One with an ordering key waits for it, until ordering/unblock_next; an id that is
-- unfinished already is left alone. Of numbers of queues, and of the order, see insert/jobs.
WITH written AS (
    INSERT INTO {schema}.jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, max_retries, ordering_key,
                      unique_key, unique_seconds, aged_rank, headers)
    SELECT id, queue_id,
           CASE WHEN due <= now() AND ordering_key IS NULL THEN coalesce(aged_rank, (127 - priority)::bigint << 45 | seq) END,
           seq, priority, CASE WHEN due <= now() THEN 'queued'::{schema}.job_status ELSE 'scheduled' END,
           due, type, payload, tag_list::text[], max_retries, ordering_key, unique_key, unique_seconds, aged_rank,
           headers
      FROM (SELECT i.*, t.due, nextval('{schema}.job_seq') AS seq,
                   {schema}.aged_rank(i.priority, CASE WHEN t.due <= now() THEN i.arrival_us ELSE (extract(epoch FROM t.due) * 1000000)::bigint END,
                             i.aging_us) AS aged_rank
              FROM unnest(%(id)s::uuid[], %(queue_id)s::int[], %(type)s::text[], %(payload)s::text[], %(priority)s::smallint[],
                          %(delay)s::float8[], %(run_at)s::float8[], %(max_retries)s::int[], %(tags)s::text[],
                          %(ordering_key)s::text[], %(unique_key)s::text[], %(unique_seconds)s::float8[],
                          %(arrival_us)s::bigint[], %(aging_us)s::bigint[], %(headers)s::text[])
                   AS i (id, queue_id, type, payload, priority, delay, run_at, max_retries, tag_list, ordering_key, unique_key,
                         unique_seconds, arrival_us, aging_us, headers)
             CROSS JOIN LATERAL (SELECT greatest(now(), coalesce(to_timestamp(i.run_at), now() + make_interval(secs => i.delay))) AS due) t
           ) n
        ON CONFLICT (id) DO NOTHING
    RETURNING id, rank, status, run_at, queue_id, type
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT (SELECT q.id FROM {schema}.queues q
             WHERE q.id = w.queue_id AND q.closed_at IS NULL
               AND q.name = (%(names)s::text[])[array_position(%(numbers)s::int[], q.id)]),
           w.type, 'enqueued', count(*)
      FROM written w GROUP BY w.queue_id, w.type
)
SELECT id::text, rank, CASE WHEN status = 'scheduled' THEN extract(epoch FROM run_at)::float8 END FROM written

-- name: closed
-- Return those of these queues that are closed.
SELECT name FROM {schema}.queues WHERE name = ANY (%(names)s::text[]) AND closed_at IS NOT NULL ORDER BY name

-- name: database
-- Return what the server calls the database of this connection.
SELECT current_database()::text

-- name: notify
-- Notify of queues that received jobs, and of their ranks first, when the caller's transaction commits; equal ones arrive once.
SELECT pg_notify(m.channel, m.message)
  FROM (SELECT '{channels}_ranks' AS channel, unnest(%(ranks)s::text[]) AS message
        UNION ALL
        SELECT '{channels}_committed', unnest(%(queues)s::text[])) m

-- name: worker_results
-- Return what is known about jobs, wherever they are; a result that is over its retention is gone. Each is looked up by its id,
-- independent of the statistics.
SELECT i.id::text, f.status, CASE WHEN NOT f.expired THEN f.result END, f.error, f.expired
  FROM (SELECT DISTINCT unnest(%(ids)s::uuid[]) AS id) i
 CROSS JOIN LATERAL (
       SELECT CASE WHEN (SELECT true FROM {schema}.leases l WHERE l.id = j.id) THEN 'running' ELSE j.status::text END AS status,
              NULL AS result, j.error, false AS expired
         FROM {schema}.jobs j WHERE j.id = i.id
       UNION ALL
       SELECT 'dead', NULL, d.error, false FROM {schema}.jobs_dead d WHERE d.id = i.id
       UNION ALL
       SELECT h.status::text, h.result, h.error,
              h.status = 'completed' AND h.finished_at <= now() - make_interval(secs => %(seconds)s)
         FROM {schema}.job_history h WHERE h.id = i.id
       OFFSET 0) f
