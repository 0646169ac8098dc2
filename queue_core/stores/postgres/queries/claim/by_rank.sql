-- Move the ready jobs of best rank to running: the claim without a dispatcher. It looks at the ranks above and up to some, part after
-- part in their order, and no further than it has to.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), candidate AS MATERIALIZED (
    SELECT j.*
      FROM unnest(%(above)s::bigint[], %(up_to)s::bigint[]) AS p (above, up_to)
     CROSS JOIN LATERAL (
           SELECT j.id, j.type, j.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
                  j.ordering_key, j.losses
             FROM jobs j
            WHERE j.queue_id = %(queue_id)s
              AND j.rank IS NOT NULL
              AND j.rank > p.above AND j.rank <= p.up_to
              AND (%(types)s::text[] IS NULL OR j.type = ANY (%(types)s::text[]))
              AND coalesce((SELECT false FROM leases l WHERE l.id = j.id), true)
              AND EXISTS (SELECT FROM queues q WHERE q.id = %(queue_id)s AND q.name = %(queue)s AND q.paused_at IS NULL)
            ORDER BY j.rank
            LIMIT %(limit)s
              FOR NO KEY UPDATE OF j SKIP LOCKED) j
     LIMIT %(limit)s
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
