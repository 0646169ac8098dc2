-- Make gates that are missing, but do not wait for long for somebody who is making one of them.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
)
INSERT INTO order_gates (queue_id, key)
SELECT DISTINCT q.id, i.key
  FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
 CROSS JOIN LATERAL (SELECT id FROM queues q WHERE q.name = i.queue OFFSET 0) q
 CROSS JOIN patience
 ORDER BY 1, 2
    ON CONFLICT (queue_id, key) DO NOTHING
