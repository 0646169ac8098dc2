-- Return the first claimable jobs of queues whose type a live worker of that queue has announced, by queue and rank, of each part of
-- its ranks that is named, and a hash of what is announced; no job where a part has none. '' is announced by who takes every type.
WITH alive AS MATERIALIZED (
    SELECT w.queues, w.types FROM workers w WHERE w.heartbeat_at > now() - make_interval(secs => 3 * w.interval_s)
), part AS MATERIALIZED (
    SELECT p.above, p.up_to, q.id, q.name
      FROM unnest(%(queues)s::text[], %(above)s::bigint[], %(up_to)s::bigint[]) AS p (queue, above, up_to)
     CROSS JOIN LATERAL (SELECT q.id, q.name FROM queues q WHERE q.name = p.queue AND q.paused_at IS NULL OFFSET 0) q
), known AS MATERIALIZED (
    SELECT q.id, array_agg(DISTINCT t.type) AS types
      FROM (SELECT DISTINCT id, name FROM part) q, alive a, unnest(a.types) AS t (type)
     WHERE q.name = ANY (a.queues)
     GROUP BY q.id
)
SELECT h.id::text, p.name, h.rank, hashtext(k.types::text)
  FROM part p
  JOIN known k ON k.id = p.id
  LEFT JOIN LATERAL (
       SELECT j.id, j.rank FROM jobs j
        WHERE j.queue_id = p.id
          AND j.rank IS NOT NULL
          AND j.rank > p.above AND j.rank <= p.up_to
          AND (j.type = ANY (k.types) OR '' = ANY (k.types))
          AND coalesce((SELECT false FROM leases l WHERE l.id = j.id), true)
        ORDER BY j.rank
        LIMIT %(limit)s) h ON true
 ORDER BY p.name, h.rank
