-- name: payloads
-- Return the payloads of jobs that were just claimed.
SELECT id::text, payload FROM {schema}.jobs WHERE id = ANY (%(ids)s::uuid[])

-- name: claimable
-- Return which of these jobs are claimable by a live worker: a worker that lacks their types gives them back.
-- A worker that takes every type announces ''.
WITH announced AS MATERIALIZED (
    SELECT DISTINCT unnest(w.types) AS type
      FROM {schema}.workers w JOIN {schema}.queues q ON q.name = ANY (w.queues)
     WHERE q.id = %(queue_id)s AND w.heartbeat_at > now() - make_interval(secs => 3 * w.interval_s)
)
SELECT j.id::text, j.rank
  FROM {schema}.jobs j
 WHERE j.id = ANY (%(ids)s::uuid[])
   AND j.queue_id = %(queue_id)s
   AND j.status = 'queued'
   AND (j.ordering_key IS NULL OR j.admitted)
   AND (j.type IN (SELECT type FROM announced) OR '' IN (SELECT type FROM announced))
   AND coalesce((SELECT false FROM {schema}.leases l WHERE l.id = j.id), true)
   AND EXISTS (SELECT FROM {schema}.queues q WHERE q.id = %(queue_id)s AND q.paused_at IS NULL)
 ORDER BY j.rank

-- name: heads
-- Return the first claimable jobs of queues whose type a live worker of that queue has announced, by queue and rank, of each part of
-- its ranks that is named, and a hash of what is announced; no job where a part has none. A worker that takes every type announces ''.
WITH alive AS MATERIALIZED (
    SELECT w.queues, w.types FROM {schema}.workers w WHERE w.heartbeat_at > now() - make_interval(secs => 3 * w.interval_s)
), part AS MATERIALIZED (
    SELECT p.above, p.up_to, q.id, q.name
      FROM unnest(%(queues)s::text[], %(above)s::bigint[], %(up_to)s::bigint[]) AS p (queue, above, up_to)
     CROSS JOIN LATERAL (SELECT q.id, q.name FROM {schema}.queues q WHERE q.name = p.queue AND q.paused_at IS NULL OFFSET 0) q
), announced AS MATERIALIZED (
    SELECT q.id, array_agg(DISTINCT t.type) AS types
      FROM (SELECT DISTINCT id, name FROM part) q, alive a, unnest(a.types) AS t (type)
     WHERE q.name = ANY (a.queues)
     GROUP BY q.id
)
SELECT h.id::text, p.name, h.rank, hashtext(k.types::text)
  FROM part p
  JOIN announced k ON k.id = p.id
  LEFT JOIN LATERAL (
       SELECT j.id, j.rank FROM {schema}.jobs j
        WHERE j.queue_id = p.id
          AND j.rank IS NOT NULL
          AND j.rank > p.above AND j.rank <= p.up_to
          AND (j.type = ANY (k.types) OR '' = ANY (k.types))
          AND coalesce((SELECT false FROM {schema}.leases l WHERE l.id = j.id), true)
        ORDER BY j.rank
        LIMIT %(limit)s) h ON true
 ORDER BY p.name, h.rank

-- name: ready_after
-- Return a page of a queue's ready jobs in order, of the ranks above and up to some, part after part.
SELECT j.id::text, j.rank
  FROM unnest(%(above)s::bigint[], %(up_to)s::bigint[]) AS p (above, up_to)
 CROSS JOIN LATERAL (
       SELECT j.id, j.rank FROM {schema}.jobs j
        WHERE j.queue_id = %(queue_id)s
          AND j.rank IS NOT NULL
          AND j.rank > p.above AND j.rank <= p.up_to
          AND coalesce((SELECT false FROM {schema}.leases l WHERE l.id = j.id), true)
        ORDER BY j.rank
        LIMIT %(limit)s) j
 LIMIT %(limit)s

-- name: sweep_edge
-- Return how far the order of arrival has come, and about how many blocks and rows the jobs have, with those that ended.
SELECT s.last_value, pg_relation_size(j.id) / current_setting('block_size')::int, pg_stat_get_live_tuples(j.id) + pg_stat_get_dead_tuples(j.id)
  FROM {schema}.job_seq s, (SELECT '{schema}.jobs'::regclass AS id) j

-- name: ready_queues
-- Return the queues that are not paused and have ready jobs, or running ones: one look at the index for each queue.
-- (The limit keeps the planner from reading all jobs for a join.)
SELECT q.name
  FROM {schema}.queues q
 CROSS JOIN LATERAL (SELECT FROM {schema}.jobs j WHERE j.queue_id = q.id AND j.rank IS NOT NULL ORDER BY j.rank LIMIT 1) one
 WHERE q.paused_at IS NULL
 ORDER BY q.name

-- name: by_ids
-- Move nominated jobs to running: lock their rows first, so that a row just settled or requeued cannot run again. Without ids, those
-- that this transaction has unblocked; `within`: no more than it has counted as room.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', coalesce(%(synchronous)s, current_setting('synchronous_commit')), true)
), candidate AS MATERIALIZED (
    SELECT j.id, j.type, j.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
           j.ordering_key, j.losses, j.headers
      FROM {schema}.jobs j
     WHERE j.id = ANY (coalesce(%(ids)s, '{' || current_setting('jobs.unblocked', true) || '}')::uuid[])
       AND j.queue_id = %(queue_id)s
       AND j.status = 'queued'
       AND (j.ordering_key IS NULL OR j.admitted)
       AND (%(types)s::text[] IS NULL OR j.type = ANY (%(types)s::text[]))
       AND EXISTS (SELECT FROM {schema}.queues q WHERE q.id = %(queue_id)s AND q.name = %(queue)s AND q.paused_at IS NULL)
     ORDER BY j.rank
     LIMIT least(%(limit)s, CASE WHEN %(within)s THEN coalesce(nullif(current_setting('jobs.room', true), ''), '0')::int END)
       FOR NO KEY UPDATE OF j SKIP LOCKED
), numbered AS MATERIALIZED (
    SELECT c.*, (SELECT epoch FROM {schema}.lease_epoch_live)::bigint << 40 | nextval('{schema}.lease_seq') AS token,
           row_number() OVER best AS position, sum(octet_length(c.payload)) OVER best - octet_length(c.payload) AS ahead
      FROM candidate c
     WHERE EXISTS (SELECT FROM {schema}.lease_epoch_live)
    WINDOW best AS (ORDER BY c.rank ROWS UNBOUNDED PRECEDING)
-- Jobs until their payloads fill 8 MB (queue_core.runtime.MAX_STATEMENT_LENGTH).
), leased AS (
    INSERT INTO {schema}.leases (id, token, queue_id, worker, started_at, expires_at, started, claim, limited, release)
    SELECT n.id, n.token, %(queue_id)s, %(worker)s, now(), now() + make_interval(secs => %(lease)s), n.position <= %(starting)s,
           %(claim)s, %(inline)s::int IS NOT NULL, %(release)s
      FROM numbered n, soft
     WHERE n.ahead < 8388608
        ON CONFLICT (id) DO NOTHING
    RETURNING id
)
-- IS TRUE keeps the planner from making a join of it, which for a wrong guess of the rows compares each with each.
SELECT n.id::text, n.token, n.type, CASE WHEN %(inline)s::int IS NULL OR octet_length(n.payload) <= %(inline)s::int THEN n.payload END,
       n.priority, n.rank, n.retry_count, n.max_retries, n.crashes, extract(epoch FROM n.created_at)::float8,
       n.tags, n.ordering_key, n.losses, n.headers
  FROM numbered n
 WHERE (n.id IN (SELECT id FROM leased)) IS TRUE
 ORDER BY n.rank

-- name: by_rank
-- Move the ready jobs of best rank to running: the claim without a dispatcher. It looks at the ranks above and up to some, part after
-- part in their order, and no further than it has to. The last row has no id where ready jobs were seen that are not claimed, because
-- another claim was committed between this one's snapshot and its locks, or their payloads are large; its token is the epoch, null
-- where there is none yet. There may be more behind them. `within`: see claim/by_ids.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', coalesce(%(synchronous)s, current_setting('synchronous_commit')), true)
), candidate AS MATERIALIZED (
    SELECT j.*
      FROM unnest(%(above)s::bigint[], %(up_to)s::bigint[]) AS p (above, up_to)
     CROSS JOIN LATERAL (
           SELECT j.id, j.type, j.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
                  j.ordering_key, j.losses, j.headers
             FROM {schema}.jobs j
            WHERE j.queue_id = %(queue_id)s
              AND j.rank IS NOT NULL
              AND j.rank > p.above AND j.rank <= p.up_to
              AND (%(types)s::text[] IS NULL OR j.type = ANY (%(types)s::text[]))
              AND coalesce((SELECT false FROM {schema}.leases l WHERE l.id = j.id), true)
              AND EXISTS (SELECT FROM {schema}.queues q WHERE q.id = %(queue_id)s AND q.name = %(queue)s AND q.paused_at IS NULL)
            ORDER BY j.rank
            LIMIT least(%(limit)s, CASE WHEN %(within)s THEN coalesce(nullif(current_setting('jobs.room', true), ''), '0')::int END)
              FOR NO KEY UPDATE OF j SKIP LOCKED) j
     LIMIT least(%(limit)s, CASE WHEN %(within)s THEN coalesce(nullif(current_setting('jobs.room', true), ''), '0')::int END)
), numbered AS MATERIALIZED (
    SELECT c.*, (SELECT epoch FROM {schema}.lease_epoch_live)::bigint << 40 | nextval('{schema}.lease_seq') AS token,
           row_number() OVER best AS position, sum(octet_length(c.payload)) OVER best - octet_length(c.payload) AS ahead
      FROM candidate c
     WHERE EXISTS (SELECT FROM {schema}.lease_epoch_live)
    WINDOW best AS (ORDER BY c.rank ROWS UNBOUNDED PRECEDING)
-- Jobs until their payloads fill 8 MB (queue_core.runtime.MAX_STATEMENT_LENGTH).
), leased AS (
    INSERT INTO {schema}.leases (id, token, queue_id, worker, started_at, expires_at, started, claim, limited, release)
    SELECT n.id, n.token, %(queue_id)s, %(worker)s, now(), now() + make_interval(secs => %(lease)s), n.position <= %(starting)s,
           %(claim)s, %(inline)s::int IS NOT NULL, %(release)s
      FROM numbered n, soft
     WHERE n.ahead < 8388608
        ON CONFLICT (id) DO NOTHING
    RETURNING id
)
-- IS TRUE keeps the planner from making a join of it, which for a wrong guess of the rows compares each with each.
SELECT n.id::text, n.token, n.type, CASE WHEN %(inline)s::int IS NULL OR octet_length(n.payload) <= %(inline)s::int THEN n.payload END,
       n.priority, n.rank, n.retry_count, n.max_retries, n.crashes, extract(epoch FROM n.created_at)::float8,
       n.tags, n.ordering_key, n.losses, n.headers
  FROM numbered n
 WHERE (n.id IN (SELECT id FROM leased)) IS TRUE
UNION ALL
SELECT NULL, (SELECT epoch FROM {schema}.lease_epoch_live), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
 WHERE (SELECT count(*) FROM candidate) > (SELECT count(*) FROM leased)
 ORDER BY rank

-- name: edge
-- Return what `sweep_edge` does; nothing where nothing can be claimed.
SELECT s.last_value, pg_relation_size(j.id) / current_setting('block_size')::int, pg_stat_get_live_tuples(j.id) + pg_stat_get_dead_tuples(j.id)
  FROM {schema}.job_seq s, (SELECT '{schema}.jobs'::regclass AS id) j, {schema}.queues q
 WHERE q.id = %(queue_id)s AND q.name = %(queue)s AND q.paused_at IS NULL AND EXISTS (SELECT FROM {schema}.lease_epoch_live)

-- name: first
-- Return the best rank of a ready job above and up to some, part after part.
SELECT j.rank
  FROM unnest(%(above)s::bigint[], %(up_to)s::bigint[]) AS p (above, up_to)
 CROSS JOIN LATERAL (
       SELECT j.rank FROM {schema}.jobs j
        WHERE j.queue_id = %(queue_id)s
          AND j.rank IS NOT NULL
          AND j.rank > p.above AND j.rank <= p.up_to
          AND (%(types)s::text[] IS NULL OR j.type = ANY (%(types)s::text[]))
          AND coalesce((SELECT false FROM {schema}.leases l WHERE l.id = j.id), true)
        ORDER BY j.rank
        LIMIT 1) j
 LIMIT 1
