-- Leave an order for a worker, which its next heartbeat takes; it hears that there is one.
-- KEYS: 1 workers
-- ARGV: 1 worker, 2 order, 3 channel, 4 message
-- Returns 1, or 0 where there is no such worker.
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if not entry then
  return 0
end
local times, rest = string.match(entry, '^(%d+ %d+) %S+ (.*)$')
redis.call('HSET', KEYS[1], ARGV[1], times .. ' ' .. ARGV[2] .. ' ' .. rest)
redis.pcall('PUBLISH', ARGV[3], ARGV[4])
return 1
