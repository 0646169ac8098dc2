-- Write jobs with keys, or in a queue with aging. Who has an ordering key waits for it, until gates/open; an id that is
-- unfinished already is left alone. Of numbers of queues, and of the order, see insert/jobs.
WITH written AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, max_retries, ordering_key,
                      unique_key, unique_seconds, place)
    SELECT id, queue_id,
           CASE WHEN due <= now() AND ordering_key IS NULL THEN coalesce(place, (127 - priority)::bigint << 45 | seq) END,
           seq, priority, CASE WHEN due <= now() THEN 'queued'::job_status ELSE 'scheduled' END,
           due, type, payload, tag_list::text[], max_retries, ordering_key, unique_key, unique_seconds, place
      FROM (SELECT i.*, t.due, nextval('job_seq') AS seq,
                   aged_rank(i.priority, CASE WHEN t.due <= now() THEN i.arrival_us ELSE (extract(epoch FROM t.due) * 1000000)::bigint END,
                             i.aging_us) AS place
              FROM unnest(%(id)s::uuid[], %(queue_id)s::int[], %(type)s::text[], %(payload)s::text[], %(priority)s::smallint[],
                          %(delay)s::float8[], %(run_at)s::float8[], %(max_retries)s::int[], %(tags)s::text[],
                          %(ordering_key)s::text[], %(unique_key)s::text[], %(unique_seconds)s::float8[],
                          %(arrival_us)s::bigint[], %(aging_us)s::bigint[])
                   AS i (id, queue_id, type, payload, priority, delay, run_at, max_retries, tag_list, ordering_key, unique_key,
                         unique_seconds, arrival_us, aging_us)
             CROSS JOIN LATERAL (SELECT greatest(now(), coalesce(to_timestamp(i.run_at), now() + make_interval(secs => i.delay))) AS due) t
           ) n
        ON CONFLICT (id) DO NOTHING
    RETURNING id, rank, status, run_at, queue_id, type
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT (SELECT q.id FROM queues q
             WHERE q.id = w.queue_id
               AND q.name = (%(names)s::text[])[array_position(%(numbers)s::int[], q.id)]),
           w.type, 'enqueued', count(*)
      FROM written w GROUP BY w.queue_id, w.type
)
SELECT id::text, rank, CASE WHEN status = 'scheduled' THEN extract(epoch FROM run_at)::float8 END FROM written
