-- Every queue with whether it is paused.
SELECT q.id, q.name, q.paused_at IS NOT NULL FROM queues q ORDER BY q.name
