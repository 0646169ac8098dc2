-- Lock gates like gates/lock, but do not wait for long, neither here nor later in this transaction.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
), named AS MATERIALIZED (
    SELECT DISTINCT i.queue, q.id, i.key
      FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
     CROSS JOIN LATERAL (SELECT id FROM queues q WHERE q.name = i.queue OFFSET 0) q
), locked AS (
    -- The condition is never true, but the row that it is asked of is locked.
    INSERT INTO order_gates (queue_id, key)
    SELECT id, key FROM named ORDER BY id, key COLLATE "C"
        ON CONFLICT (queue_id, key) DO UPDATE SET key = excluded.key WHERE false
)
SELECT DISTINCT queue, id FROM named, patience
