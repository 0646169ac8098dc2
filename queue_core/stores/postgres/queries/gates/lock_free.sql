-- Lock those gates that nobody else has locked, waiting for none; returns all and which were locked.
SELECT i.queue, i.id, i.key, o.key IS NOT NULL
  FROM (SELECT DISTINCT i.queue, q.id, i.key
          FROM unnest(%(queue)s::text[], %(key)s::text[]) AS i (queue, key)
         CROSS JOIN LATERAL (SELECT id FROM queues q WHERE q.name = i.queue OFFSET 0) q) i
  LEFT JOIN LATERAL (SELECT o.key FROM order_gates o
                      WHERE o.queue_id = i.id AND o.key = i.key FOR UPDATE SKIP LOCKED) o ON true
