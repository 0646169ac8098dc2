-- Note ordering keys that are let go of while somebody else has their gates locked.
INSERT INTO order_checks (queue_id, key) SELECT * FROM unnest(%(queue_id)s::int[], %(key)s::text[])
