-- The ids of matching jobs in order.
SELECT id::text FROM ({places}) AS found ORDER BY {order} LIMIT %(limit)s
