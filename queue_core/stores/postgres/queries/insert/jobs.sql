-- Write jobs as queued or scheduled; an id that is unfinished already is left alone. Numbers of queues that are not those of
-- their names any more (a failover has lost them) are written as NULL, which the table refuses; only those named are compared.
WITH input AS MATERIALIZED (
    SELECT i.*, now() + make_interval(secs => delay) AS due
      FROM unnest(%(id)s::uuid[], %(queue_id)s::int[], %(type)s::text[], %(payload)s::text[], %(priority)s::smallint[],
                  %(delay)s::float8[], %(run_at)s::float8[], %(max_retries)s::int[], %(tags)s::text[])
           WITH ORDINALITY AS i (id, queue_id, type, payload, priority, delay, run_at, max_retries, tags, position)
), known AS MATERIALIZED (
    SELECT coalesce(bool_and(EXISTS (SELECT FROM queues q WHERE q.id = n.id AND q.name = n.name)), true) AS all_are
      FROM unnest(%(numbers)s::int[], %(names)s::text[]) AS n (id, name)
), numbered AS (
    SELECT id, queue_id, type, payload, priority, max_retries, tags::text[] AS tags, nextval('job_seq') AS seq,
           greatest(now(), coalesce(to_timestamp(run_at), due)) AS due
      FROM input
     ORDER BY position
), written AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, max_retries)
    SELECT id, CASE WHEN (SELECT all_are FROM known) THEN queue_id END, CASE WHEN due <= now() THEN (127 - priority)::bigint << 45 | seq END, seq, priority,
           CASE WHEN due <= now() THEN 'queued'::job_status ELSE 'scheduled' END,
           due, type, payload, tags, max_retries
      FROM numbered
        ON CONFLICT (id) DO NOTHING
    RETURNING id, rank, run_at, queue_id, type
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'enqueued', count(*) FROM written GROUP BY queue_id, type
)
SELECT id::text, rank, extract(epoch FROM run_at)::float8 FROM written
