-- Lock the gates of ordering keys, making those that are missing; returns the numbers of their queues. One order for
-- everybody, and always before the rows of jobs, so that nobody waits in a circle.
WITH named AS MATERIALIZED (
    SELECT DISTINCT i.queue, q.id, i.key
      FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
     CROSS JOIN LATERAL (SELECT id FROM queues q WHERE q.name = i.queue OFFSET 0) q
), locked AS (
    -- The condition is never true, but the row that it is asked of is locked.
    INSERT INTO order_gates (queue_id, key)
    SELECT id, key FROM named ORDER BY id, key COLLATE "C"
        ON CONFLICT (queue_id, key) DO UPDATE SET key = excluded.key WHERE false
)
SELECT DISTINCT queue, id FROM named
