-- Every queue with whether it is paused.
SELECT number, name, paused_at IS NOT NULL FROM queues ORDER BY name
