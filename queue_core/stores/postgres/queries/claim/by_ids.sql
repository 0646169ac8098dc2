-- Move nominated jobs to running: lock their rows first, so that a row just settled or requeued cannot run again.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), candidate AS MATERIALIZED (
    SELECT j.id, j.type, j.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
           j.ordering_key, j.losses
      FROM jobs j
     WHERE j.id = ANY (%(ids)s::uuid[])
       AND j.queue_id = %(queue_id)s
       AND j.status = 'queued'
       AND (j.ordering_key IS NULL OR j.holds)
       AND (%(types)s::text[] IS NULL OR j.type = ANY (%(types)s::text[]))
       AND EXISTS (SELECT FROM queues q WHERE q.id = %(queue_id)s AND q.name = %(queue)s AND q.paused_at IS NULL)
     ORDER BY j.rank
     LIMIT %(limit)s
       FOR NO KEY UPDATE OF j SKIP LOCKED
), numbered AS MATERIALIZED (
    SELECT c.*, (SELECT epoch FROM lease_epoch_live)::bigint << 40 | nextval('lease_seq') AS token,
           row_number() OVER best AS place, sum(octet_length(c.payload)) OVER best - octet_length(c.payload) AS ahead
      FROM candidate c
     WHERE EXISTS (SELECT FROM lease_epoch_live)
    WINDOW best AS (ORDER BY c.rank ROWS UNBOUNDED PRECEDING)
-- Jobs until their payloads fill 8 MB (queue_core.runtime.LARGEST).
), leased AS (
    INSERT INTO leases (id, token, queue_id, worker, started_at, expires_at, begun, claim, counted)
    SELECT n.id, n.token, %(queue_id)s, %(worker)s, now(), now() + make_interval(secs => %(lease)s), n.place <= %(starting)s,
           %(claim)s, %(inline)s::int IS NOT NULL
      FROM numbered n, soft
     WHERE n.ahead < 8388608
        ON CONFLICT (id) DO NOTHING
    RETURNING id
)
-- IS TRUE keeps the planner from making a join of it, which for a wrong guess of the rows compares each with each.
SELECT n.id::text, n.token, n.type, CASE WHEN %(inline)s::int IS NULL OR octet_length(n.payload) <= %(inline)s::int THEN n.payload END,
       n.priority, n.rank, n.retry_count, n.max_retries, n.crashes, extract(epoch FROM n.created_at)::float8,
       n.tags, n.ordering_key, n.losses
  FROM numbered n
 WHERE (n.id IN (SELECT id FROM leased)) IS TRUE
 ORDER BY n.rank
