-- Move nominated jobs to running: lock their rows first, so that a row just settled or requeued cannot run again.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), candidate AS MATERIALIZED (
    SELECT j.id, j.type, j.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags
      FROM jobs j
     WHERE j.id = ANY (%(ids)s::uuid[])
       AND j.queue_id = %(queue_id)s
       AND j.status = 'queued'
       AND j.type = ANY (%(types)s::text[])
       AND EXISTS (SELECT FROM queues q WHERE q.id = %(queue_id)s AND q.paused_at IS NULL)
     ORDER BY j.rank
     LIMIT %(limit)s
       FOR NO KEY UPDATE OF j SKIP LOCKED
), leased AS (
    INSERT INTO leases (id, token, queue_id, worker, started_at, expires_at)
    SELECT c.id, e.epoch::bigint << 40 | nextval('lease_seq'), %(queue_id)s, %(worker)s, now(),
           now() + make_interval(secs => %(lease)s)
      FROM candidate c, lease_epoch_live e, soft
        ON CONFLICT (id) DO NOTHING
    RETURNING id, token
)
SELECT c.id::text, l.token, c.type, c.payload, c.priority, c.rank, c.retry_count, c.max_retries, c.crashes,
       extract(epoch FROM c.created_at)::float8, c.tags
  FROM candidate c JOIN leased l ON l.id = c.id
 ORDER BY c.rank
