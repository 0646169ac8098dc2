-- Return every queue and whether it is paused.
SELECT name, id, paused_at IS NOT NULL FROM queues ORDER BY name
