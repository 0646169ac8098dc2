-- Leave an order for a worker, which its next heartbeat takes.
-- KEYS: 1 workers
-- ARGV: 1 worker, 2 order
-- Returns 1, or 0 where there is no such worker.
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if not entry then
  return 0
end
local times, rest = string.match(entry, '^(%d+ %d+) %S+ (.*)$')
redis.call('HSET', KEYS[1], ARGV[1], times .. ' ' .. ARGV[2] .. ' ' .. rest)
return 1
