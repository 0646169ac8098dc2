-- Renew a worker's entry and take the order that was left for it.
-- KEYS: 1 workers
-- ARGV: 1 worker, 2 what it says about itself, as JSON
-- Returns the order, or "". An entry: started_at, heartbeat_at, the order or "-", the JSON.
-- with: clock
local entry = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local started_at, order = string.match(entry, '^(%d+) %d+ (%S+) ')
redis.call('HSET', KEYS[1], ARGV[1], (started_at or stamp) .. ' ' .. stamp .. ' - ' .. ARGV[2])
return order and order ~= '-' and order or ''
