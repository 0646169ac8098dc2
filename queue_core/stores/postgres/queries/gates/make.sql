-- Make gates that are missing, but do not wait for long for somebody who is making one of them. Those that are there are left out: an
-- insert would wait for whoever is changing one.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
)
INSERT INTO order_gates (queue_id, key)
SELECT DISTINCT q.id, i.key
  FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
 CROSS JOIN LATERAL (SELECT id FROM queues q WHERE q.name = i.queue OFFSET 0) q
 CROSS JOIN patience
 WHERE (SELECT true FROM order_gates o WHERE o.queue_id = q.id AND o.key = i.key) IS NULL
 ORDER BY 1, 2
    ON CONFLICT (queue_id, key) DO NOTHING
