-- The ids of one place in order.
(SELECT v.id, v.updated_at FROM {place} v WHERE {conditions} ORDER BY {order} LIMIT %(limit)s)
