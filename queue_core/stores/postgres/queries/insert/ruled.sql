-- Write jobs with keys, or in a queue with aging. Who has an ordering key waits for it, until gates/open; an id that is
-- unfinished already is left alone. Of numbers of queues see insert/jobs.
WITH input AS MATERIALIZED (
    SELECT i.*, greatest(now(), coalesce(to_timestamp(i.run_at), now() + make_interval(secs => i.delay))) AS due
      FROM unnest(%(id)s::uuid[], %(queue_id)s::int[], %(type)s::text[], %(payload)s::text[], %(priority)s::smallint[],
                  %(delay)s::float8[], %(run_at)s::float8[], %(max_retries)s::int[], %(tags)s::text[],
                  %(ordering_key)s::text[], %(unique_key)s::text[], %(unique_seconds)s::float8[],
                  %(arrival_us)s::bigint[], %(aging_us)s::bigint[])
           WITH ORDINALITY AS i (id, queue_id, type, payload, priority, delay, run_at, max_retries, tags, ordering_key, unique_key,
                                 unique_seconds, arrival_us, aging_us, position)
), known AS MATERIALIZED (
    SELECT bool_and(EXISTS (SELECT FROM queues q WHERE q.id = n.id AND q.name = n.name)) AS all_are
      FROM unnest(%(numbers)s::int[], %(names)s::text[]) AS n (id, name)
), numbered AS (
    SELECT id, queue_id, type, payload, priority, max_retries, tags::text[] AS tags, ordering_key, unique_key, unique_seconds, due,
           nextval('job_seq') AS seq,
           aged_rank(priority, CASE WHEN due <= now() THEN arrival_us ELSE (extract(epoch FROM due) * 1000000)::bigint END,
                     aging_us) AS place
      FROM input
     ORDER BY position
), written AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, max_retries, ordering_key,
                      unique_key, unique_seconds, place)
    SELECT id, CASE WHEN (SELECT all_are FROM known) THEN queue_id END,
           CASE WHEN due <= now() AND ordering_key IS NULL THEN coalesce(place, (127 - priority)::bigint << 45 | seq) END,
           seq, priority, CASE WHEN due <= now() THEN 'queued'::job_status ELSE 'scheduled' END,
           due, type, payload, tags, max_retries, ordering_key, unique_key, unique_seconds, place
      FROM numbered
        ON CONFLICT (id) DO NOTHING
    RETURNING id, rank, status, run_at, queue_id, type
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'enqueued', count(*) FROM written GROUP BY queue_id, type
)
SELECT id::text, rank, CASE WHEN status = 'scheduled' THEN extract(epoch FROM run_at)::float8 END FROM written
