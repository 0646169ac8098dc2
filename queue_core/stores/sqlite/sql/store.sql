-- name: queues
-- Every queue and whether it is paused.
SELECT name, paused_at IS NOT NULL FROM queues ORDER BY name
