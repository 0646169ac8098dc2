-- Move dead and completed jobs to queued, or to scheduled where they are spread over some seconds. What is unfinished stays
-- as it is. Their order is that of arrival anew; the token and the crash count are kept, for nothing ever resets them.
WITH input AS MATERIALIZED (
    SELECT i.id, i.position
      FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS i (id, position)
     WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = i.id)
), dead AS MATERIALIZED (
    -- One order of locks, so that two consoles that retry the same jobs do not wait for each other.
    SELECT d.id FROM jobs_dead d JOIN input i ON i.id = d.id ORDER BY d.id FOR UPDATE OF d
), completed AS MATERIALIZED (
    -- An id that was used again after its end stands in the history more than once.
    SELECT h.id, h.finished_at
      FROM job_history h JOIN input i ON i.id = h.id
     WHERE h.status = 'completed'
       AND NOT EXISTS (SELECT FROM jobs_dead d WHERE d.id = h.id)
       AND NOT EXISTS (SELECT FROM job_history n WHERE n.id = h.id AND n.finished_at > h.finished_at)
     ORDER BY h.id
       FOR UPDATE OF h
), risen AS (
    DELETE FROM jobs_dead d USING dead WHERE d.id = dead.id
    RETURNING d.id, d.queue_id, d.priority, d.type, d.payload, d.tags, d.crashes, d.max_retries, d.last_token, d.error, d.created_at
), again AS (
    DELETE FROM job_history h USING completed c WHERE h.id = c.id AND h.finished_at = c.finished_at
    RETURNING h.id, h.queue_id, h.priority, h.type, h.payload, h.tags, h.crashes, h.max_retries, h.last_token, h.error, h.created_at
), numbered AS (
    SELECT m.*, nextval('job_seq') AS seq, random() * %(spread)s::float8 AS delay
      FROM (SELECT r.*, i.position
              FROM (SELECT * FROM risen UNION ALL SELECT * FROM again) r JOIN input i ON i.id = r.id
             ORDER BY i.position) m
), back AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes,
                      max_retries, last_token, error, created_at)
    SELECT id, queue_id, CASE WHEN %(spread)s::float8 <= 0 THEN (127 - priority)::bigint << 45 | seq END, seq, priority,
           CASE WHEN %(spread)s::float8 <= 0 THEN 'queued'::job_status ELSE 'scheduled' END,
           now() + make_interval(secs => delay), type, payload, tags, 0, crashes, max_retries, last_token, error, created_at
      FROM numbered
    RETURNING id, queue_id, rank, type
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'retried_by_operator', count(*) FROM back GROUP BY queue_id, type
)
SELECT b.id::text, q.name, b.rank FROM back b JOIN queues q ON q.id = b.queue_id
