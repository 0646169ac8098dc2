-- Move dead and completed jobs to queued, or to scheduled where they are spread over some seconds. What is unfinished stays
-- as it is. Their order is that of arrival anew; the token and the crash count are kept, for nothing ever resets them. Who has
-- an ordering key waits for it, until gates/open, unless it went on holding it when it died.
WITH input AS MATERIALIZED (
    SELECT i.id, i.position
      FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS i (id, position)
     WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = i.id)
), dead AS MATERIALIZED (
    -- One order of locks, so that two consoles that retry the same jobs do not wait for each other.
    SELECT d.id FROM jobs_dead d JOIN input i ON i.id = d.id
     WHERE d.ordering_key IS NULL OR d.queue_id || ' ' || d.ordering_key = ANY (%(gates)s::text[])
     ORDER BY d.id FOR UPDATE OF d
), completed AS MATERIALIZED (
    -- An id that was used again after its end stands in the history more than once.
    SELECT h.id, h.finished_at
      FROM job_history h JOIN input i ON i.id = h.id
     WHERE h.status = 'completed'
       AND (h.ordering_key IS NULL OR h.queue_id || ' ' || h.ordering_key = ANY (%(gates)s::text[]))
       AND NOT EXISTS (SELECT FROM jobs_dead d WHERE d.id = h.id)
       AND NOT EXISTS (SELECT FROM job_history n WHERE n.id = h.id AND n.finished_at > h.finished_at)
     ORDER BY h.id
       FOR UPDATE OF h
), risen AS (
    DELETE FROM jobs_dead d USING dead WHERE d.id = dead.id
    RETURNING d.id, d.queue_id, d.priority, d.type, d.payload, d.tags, d.crashes, d.max_retries, d.last_token, d.error, d.created_at,
              d.ordering_key, d.holds, d.unique_key, d.unique_seconds
), again AS (
    DELETE FROM job_history h USING completed c WHERE h.id = c.id AND h.finished_at = c.finished_at
    RETURNING h.id, h.queue_id, h.priority, h.type, h.payload, h.tags, h.crashes, h.max_retries, h.last_token, h.error, h.created_at,
              h.ordering_key, false, h.unique_key, h.unique_seconds
), numbered AS (
    SELECT m.*, nextval('job_seq') AS seq, random() * %(spread)s::float8 AS delay
      FROM (SELECT r.*, i.position
              FROM (SELECT * FROM risen UNION ALL SELECT * FROM again) r JOIN input i ON i.id = r.id
             ORDER BY i.position) m
), placed AS (
    SELECT n.*, aged_rank(n.priority, CASE WHEN %(spread)s::float8 <= 0 THEN a.first_us + row_number() OVER (PARTITION BY n.queue_id ORDER BY n.seq) - 1
                                           ELSE (extract(epoch FROM now() + make_interval(secs => n.delay)) * 1000000)::bigint END,
                          a.aging_us) AS place
      FROM numbered n
      LEFT JOIN (SELECT q.id, i.first_us, i.aging_us
                   FROM unnest(%(aging)s::text[], %(first_us)s::bigint[], %(aging_us)s::bigint[]) AS i (queue, first_us, aging_us)
                   JOIN queues q ON q.name = i.queue) a ON a.id = n.queue_id
), back AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes,
                      max_retries, last_token, error, created_at, ordering_key, holds, unique_key, unique_seconds, place)
    SELECT id, queue_id,
           CASE WHEN %(spread)s::float8 <= 0 AND (ordering_key IS NULL OR holds) THEN coalesce(place, (127 - priority)::bigint << 45 | seq) END,
           seq, priority, CASE WHEN %(spread)s::float8 <= 0 THEN 'queued'::job_status ELSE 'scheduled' END,
           now() + make_interval(secs => delay), type, payload, tags, 0, crashes, max_retries, last_token, error, created_at,
           ordering_key, holds, unique_key, unique_seconds, place
      FROM placed
    RETURNING id, queue_id, rank, type, priority
), returned AS (
    INSERT INTO queue_returns (queue_id, band, n)
    SELECT r.queue_id, b.band, count(*)
      FROM back r CROSS JOIN LATERAL (VALUES (''), (priority_band(r.priority))) AS b (band)
     WHERE r.queue_id = ANY (ARRAY(SELECT id FROM queues WHERE name = ANY (%(limited)s::text[])))
     GROUP BY 1, 2
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'retried_by_operator', count(*) FROM back GROUP BY queue_id, type
)
SELECT b.id::text, q.name, b.rank FROM back b JOIN queues q ON q.id = b.queue_id
