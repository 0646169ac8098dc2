-- Move dead and completed jobs to queued, or to scheduled where they are put off. What is unfinished, or was changed since its
-- token was noted, stays as it is. Their order is that of arrival anew; they get new tokens; the crash count is kept, for nothing
-- ever resets it; losses are counted anew. Who has an ordering key waits for it, until gates/open, unless it went on holding it when it died and stays
-- where it is. `source` and `key`: the queue of a job that rules have to do with, and its ordering key from here on.
WITH input AS MATERIALIZED (
    SELECT i.*
      FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(sources)s::int[], %(keys)s::text[])
           WITH ORDINALITY AS i (id, token, source, key, position)
     WHERE (SELECT true FROM jobs j WHERE j.id = i.id) IS NULL
     -- One order of locks, so that two consoles that retry the same jobs do not wait for each other.
     ORDER BY i.id
), dead AS MATERIALIZED (
    SELECT d.*, i.key, i.position
      FROM input i
     CROSS JOIN LATERAL (SELECT id, queue_id, priority, type, payload, tags, crashes, max_retries, error, created_at,
                                holds AND coalesce(%(queue)s::int, queue_id) = queue_id
                                      AND coalesce(%(priority)s::smallint, priority) = priority AS holds, unique_key, unique_seconds
                           FROM jobs_dead d
                          WHERE d.id = i.id AND (i.token IS NULL OR d.last_token = i.token)
                            AND CASE WHEN i.source IS NULL THEN d.ordering_key IS NULL ELSE d.queue_id = i.source END
                            AND (NOT d.holds OR d.queue_id || ' ' || d.ordering_key = ANY (%(gates)s::text[]))
                            AND (i.key IS NULL OR coalesce(%(queue)s::int, d.queue_id) || ' ' || i.key = ANY (%(gates)s::text[]))
                            FOR UPDATE) d
), completed AS MATERIALIZED (
    -- An id that was used again after its end stands in the history more than once.
    SELECT h.*, i.key, i.position
      FROM input i
     CROSS JOIN LATERAL (SELECT id, finished_at, queue_id, priority, type, payload, tags, crashes, max_retries, error,
                                created_at, unique_key, unique_seconds
                           FROM job_history h
                          WHERE h.id = i.id AND h.status = 'completed' AND (i.token IS NULL OR h.last_token = i.token)
                            AND CASE WHEN i.source IS NULL THEN h.ordering_key IS NULL ELSE h.queue_id = i.source END
                            AND (i.key IS NULL OR coalesce(%(queue)s::int, h.queue_id) || ' ' || i.key = ANY (%(gates)s::text[]))
                            AND NOT EXISTS (SELECT FROM job_history n WHERE n.id = h.id AND n.finished_at > h.finished_at)
                            FOR UPDATE OF h) h
     WHERE (SELECT true FROM jobs_dead d WHERE d.id = i.id) IS NULL
), risen AS (
    DELETE FROM jobs_dead WHERE id = ANY (ARRAY(SELECT id FROM dead)) RETURNING id
), again AS (
    DELETE FROM job_history
     WHERE id = ANY (ARRAY(SELECT id FROM completed)) AND ((id, finished_at) IN (SELECT id, finished_at FROM completed)) IS TRUE
    RETURNING id
), numbered AS (
    SELECT m.*, nextval('job_seq') AS seq,
           coalesce((SELECT epoch FROM lease_epoch_live), (SELECT epoch FROM lease_epoch))::bigint << 40 | nextval('lease_seq') AS new_token,
           %(delay)s::float8 + random() * %(spread)s::float8 AS put_off
      FROM (SELECT id, coalesce(%(queue)s::int, queue_id) AS queue_id, queue_id AS source,
                   coalesce(%(priority)s::smallint, priority) AS priority, type, payload, tags, crashes, max_retries, error,
                   created_at, key, holds, unique_key, unique_seconds, position
              FROM dead WHERE (id IN (SELECT id FROM risen)) IS TRUE
            UNION ALL
            SELECT id, coalesce(%(queue)s::int, queue_id), queue_id, coalesce(%(priority)s::smallint, priority), type, payload, tags,
                   crashes, max_retries, error, created_at, key, false, unique_key, unique_seconds, position
              FROM completed WHERE (id IN (SELECT id FROM again)) IS TRUE
             ORDER BY position) m
), placed AS MATERIALIZED (
    SELECT n.*, %(delay)s::float8 <= 0 AND %(spread)s::float8 <= 0 AS at_once,
           aged_rank(n.priority, CASE WHEN %(delay)s::float8 <= 0 AND %(spread)s::float8 <= 0
                                      THEN a.first_us + row_number() OVER (PARTITION BY n.queue_id ORDER BY n.seq) - 1
                                      ELSE (extract(epoch FROM now() + make_interval(secs => n.put_off)) * 1000000)::bigint END,
                     a.aging_us) AS place
      FROM numbered n
      LEFT JOIN (SELECT q.id, i.first_us, i.aging_us
                   FROM unnest(%(aging)s::text[], %(first_us)s::bigint[], %(aging_us)s::bigint[]) AS i (queue, first_us, aging_us)
                   JOIN queues q ON q.name = i.queue) a ON a.id = n.queue_id
), back AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes,
                      max_retries, last_token, error, created_at, ordering_key, holds, unique_key, unique_seconds, place)
    SELECT id, queue_id, CASE WHEN at_once AND (key IS NULL OR holds) THEN coalesce(place, (127 - priority)::bigint << 45 | seq) END,
           seq, priority, CASE WHEN at_once THEN 'queued'::job_status ELSE 'scheduled' END,
           now() + make_interval(secs => put_off), type, payload, tags, 0, crashes, max_retries, new_token, error, created_at,
           key, holds, unique_key, unique_seconds, place
      FROM placed
    RETURNING id, queue_id, rank, priority
), returned AS (
    INSERT INTO queue_returns (queue_id, band, n)
    SELECT r.queue_id, b.band, count(*)
      FROM back r CROSS JOIN LATERAL (VALUES (''), (priority_band(r.priority))) AS b (band)
     WHERE r.queue_id = ANY (ARRAY(SELECT id FROM queues WHERE name = ANY (%(limited)s::text[])))
     GROUP BY 1, 2
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT source, type, 'retried_by_operator', count(*) FROM placed GROUP BY 1, 2
)
SELECT b.id::text, q.name, b.rank FROM back b JOIN queues q ON q.id = b.queue_id
