-- Let jobs arrive in queues with aging, together and each later than all before; returns the first arrival of each queue.
INSERT INTO queue_arrivals AS a (queue_id, last_us, n)
SELECT queue_id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + n - 1, n
  FROM (SELECT q.id AS queue_id, i.n
          FROM unnest(%(queue)s::text[], %(n)s::int[]) AS i (queue, n)
         CROSS JOIN LATERAL (SELECT id FROM queues q WHERE q.name = i.queue OFFSET 0) q
         ORDER BY q.id) i
    ON CONFLICT (queue_id) DO UPDATE SET last_us = greatest(a.last_us, excluded.last_us - excluded.n) + excluded.n, n = excluded.n
RETURNING (SELECT name FROM queues q WHERE q.id = a.queue_id), last_us - n + 1
