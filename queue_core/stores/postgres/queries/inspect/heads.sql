-- The first ready jobs of each queue and priority, by rank: since when the longest of them waits, and their types. Within a
-- priority jobs are ranked as they arrived, so the oldest is among the first unless hundreds of older ones came back late. A queue
-- with aging is one order, and its priority null.
-- (The upper end of a priority's ranks stands outside: with it inside, the planner reads and sorts the whole priority.)
SELECT g.queue_id, h.type, count(*), min(h.run_at)
  FROM unnest(%(queue_ids)s::int[], %(priorities)s::int[]) AS g (queue_id, priority)
 CROSS JOIN LATERAL (
       SELECT j.rank, j.type, j.run_at FROM jobs j
        WHERE j.queue_id = g.queue_id
          AND j.rank >= coalesce((127 - g.priority)::bigint << 45, 0)
          AND coalesce((SELECT false FROM leases l WHERE l.id = j.id), true)
        ORDER BY j.rank
        LIMIT %(limit)s) h
 WHERE g.priority IS NULL OR h.rank < (128 - g.priority)::bigint << 45
 GROUP BY 1, 2
