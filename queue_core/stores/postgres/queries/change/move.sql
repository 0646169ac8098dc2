-- Give locked waiting jobs, and dead ones, that are still as they were seen to another queue or priority, and new tokens. Waiting ones arrive
-- there anew and keep their states and times; who has an ordering key waits for it until gates/open. Written anew like those that
-- settles give back, for a join might compare each with each. A statement of its own, for a lease that was taken while the
-- lock was waited for is only seen by a new one.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(sources)s::int[], %(keys)s::text[])
                  WITH ORDINALITY AS i (id, token, source, key, position)
     ORDER BY id
), waiting AS MATERIALIZED (
    SELECT j.*, i.key, i.position
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM jobs j
                          WHERE j.id = i.id AND j.last_token = i.token AND j.queue_id = i.source
                            AND (coalesce(%(queue)s::int, j.queue_id) <> j.queue_id OR coalesce(%(priority)s::smallint, j.priority) <> j.priority)
                            AND (SELECT true FROM leases l WHERE l.id = j.id) IS NULL
                            AND (j.ordering_key IS NULL OR j.queue_id || ' ' || j.ordering_key = ANY (%(gates)s::text[]))
                            AND (i.key IS NULL OR coalesce(%(queue)s::int, j.queue_id) || ' ' || i.key = ANY (%(gates)s::text[]))
                         OFFSET 0) j
), deleted AS (
    DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM waiting)) RETURNING id
), numbered AS (
    SELECT m.*, nextval('job_seq') AS new_seq,
           coalesce((SELECT epoch FROM lease_epoch_live), (SELECT epoch FROM lease_epoch))::bigint << 40 | nextval('lease_seq') AS new_token
      FROM (SELECT *, coalesce(%(queue)s::int, queue_id) AS to_queue, coalesce(%(priority)s::smallint, priority) AS to_priority
              FROM waiting WHERE (id IN (SELECT id FROM deleted)) IS TRUE
             ORDER BY position) m
), placed AS (
    SELECT n.*, aged_rank(n.to_priority, CASE WHEN n.run_at <= now()
                                              THEN a.first_us + row_number() OVER (PARTITION BY n.to_queue ORDER BY n.new_seq) - 1
                                              ELSE (extract(epoch FROM n.run_at) * 1000000)::bigint END, a.aging_us) AS to_place
      FROM numbered n
      LEFT JOIN (SELECT q.id, i.first_us, i.aging_us
                   FROM unnest(%(aging)s::text[], %(first_us)s::bigint[], %(aging_us)s::bigint[]) AS i (queue, first_us, aging_us)
                   JOIN queues q ON q.name = i.queue) a ON a.id = n.to_queue
), written AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses,
                      max_retries, last_token, error, created_at, updated_at, ordering_key, holds, unique_key, unique_seconds, place)
    SELECT id, to_queue,
           CASE WHEN status = 'queued' AND key IS NULL THEN coalesce(to_place, (127 - to_priority)::bigint << 45 | new_seq) END,
           new_seq, to_priority, status, run_at, type, payload, tags, retry_count, crashes, losses, max_retries, new_token, error,
           created_at, updated_at, key, false, unique_key, unique_seconds, to_place
      FROM placed
    RETURNING id, queue_id, rank, priority
), returned AS (
    INSERT INTO queue_returns (queue_id, band, n)
    SELECT r.queue_id, b.band, count(*)
      FROM written r CROSS JOIN LATERAL (VALUES (''), (priority_band(r.priority))) AS b (band)
     WHERE r.queue_id = ANY (ARRAY(SELECT id FROM queues WHERE name = ANY (%(limited)s::text[])))
     GROUP BY 1, 2
), dead AS MATERIALIZED (
    SELECT d.id
      FROM input i
     CROSS JOIN LATERAL (SELECT id FROM jobs_dead d
                          WHERE d.id = i.id AND d.last_token = i.token AND d.queue_id = i.source AND d.trashed_at IS NULL
                            AND (coalesce(%(queue)s::int, d.queue_id) <> d.queue_id OR coalesce(%(priority)s::smallint, d.priority) <> d.priority)
                            AND (NOT d.holds OR d.queue_id || ' ' || d.ordering_key = ANY (%(gates)s::text[]))
                            FOR UPDATE) d
), buried AS (
    UPDATE jobs_dead SET queue_id = coalesce(%(queue)s::int, queue_id), priority = coalesce(%(priority)s::smallint, priority), holds = false,
                         ordering_key = (%(keys)s::text[])[array_position(%(ids)s::uuid[], id)],
                         last_token = coalesce((SELECT epoch FROM lease_epoch_live), (SELECT epoch FROM lease_epoch))::bigint << 40 | nextval('lease_seq')
     WHERE id = ANY (ARRAY(SELECT id FROM dead))
    RETURNING id, queue_id
)
SELECT w.id::text, q.name, w.rank FROM written w JOIN queues q ON q.id = w.queue_id
UNION ALL
SELECT b.id::text, q.name, NULL FROM buried b JOIN queues q ON q.id = b.queue_id
