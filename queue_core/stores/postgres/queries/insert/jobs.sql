-- Write jobs as queued or scheduled; an id that is unfinished already is left alone. Numbers of queues that are not those of
-- their names any more (a failover has lost them) become NULL where the jobs are counted, once a queue and type: the table
-- refuses that, and nothing is written. Without names nothing is compared. `unnest` yields its rows in the order of the arrays.
WITH written AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, max_retries)
    SELECT id, queue_id, CASE WHEN due <= now() THEN (127 - priority)::bigint << 45 | seq END, seq, priority,
           CASE WHEN due <= now() THEN 'queued'::job_status ELSE 'scheduled' END,
           due, type, payload, tag_list::text[], max_retries
      FROM (SELECT i.*, nextval('job_seq') AS seq,
                   greatest(now(), coalesce(to_timestamp(i.run_at), now() + make_interval(secs => i.delay))) AS due
              FROM unnest(%(id)s::uuid[], %(queue_id)s::int[], %(type)s::text[], %(payload)s::text[], %(priority)s::smallint[],
                          %(delay)s::float8[], %(run_at)s::float8[], %(max_retries)s::int[], %(tags)s::text[])
                   AS i (id, queue_id, type, payload, priority, delay, run_at, max_retries, tag_list)
           ) n
        ON CONFLICT (id) DO NOTHING
    RETURNING id, rank, run_at, queue_id, type
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT CASE WHEN cardinality(%(names)s::text[]) = 0 THEN w.queue_id
                ELSE (SELECT q.id FROM queues q
                       WHERE q.id = w.queue_id
                         AND q.name = (%(names)s::text[])[array_position(%(numbers)s::int[], q.id)]) END,
           w.type, 'enqueued', count(*)
      FROM written w GROUP BY w.queue_id, w.type
)
SELECT id::text, rank, extract(epoch FROM run_at)::float8 FROM written
