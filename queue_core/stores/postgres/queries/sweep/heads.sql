-- Return the first claimable jobs of each of these queues whose type a live worker of that queue has announced, by queue and
-- rank; see sweep/head.
WITH alive AS MATERIALIZED (
    SELECT w.queues, w.types FROM workers w WHERE w.heartbeat_at > now() - make_interval(secs => 3 * w.interval_s)
)
SELECT h.id::text, q.name, h.rank
  FROM queues q
 CROSS JOIN LATERAL (
       SELECT array_agg(DISTINCT t.type) AS types FROM alive a, unnest(a.types) AS t (type) WHERE q.name = ANY (a.queues)) k
 CROSS JOIN LATERAL (
       SELECT j.id, j.rank FROM jobs j
        WHERE j.queue_id = q.id
          AND j.rank IS NOT NULL
          AND (j.type = ANY (k.types) OR '' = ANY (k.types))
          AND (SELECT true FROM leases l WHERE l.id = j.id) IS NULL
        ORDER BY j.rank
        LIMIT %(limit)s) h
 WHERE q.name = ANY (%(queues)s::text[])
   AND q.paused_at IS NULL
   AND k.types IS NOT NULL
 ORDER BY q.name, h.rank
