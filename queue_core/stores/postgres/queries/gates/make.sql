-- Make gates that are missing.
INSERT INTO order_gates (queue_id, key)
SELECT DISTINCT q.id, i.key
  FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
 CROSS JOIN LATERAL (SELECT id FROM queues q WHERE q.name = i.queue OFFSET 0) q
 ORDER BY 1, 2
    ON CONFLICT (queue_id, key) DO NOTHING
