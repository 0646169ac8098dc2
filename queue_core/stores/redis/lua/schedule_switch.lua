-- Pause a schedule, or let it tick again.
-- KEYS: 1 the schedule's hash, 2 ticks
-- ARGV: 1 name, 2 the next tick in us (empty: pause it)
-- Returns 1, or 0 where there is nothing to change.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local paused = redis.call('HEXISTS', KEYS[1], 'paused') == 1
if paused == (ARGV[2] == '') then
  return 0
end
if paused then
  redis.call('HDEL', KEYS[1], 'paused')
  redis.call('HSET', KEYS[1], 'next', ARGV[2])
  redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], 'paused', '1')
  redis.call('ZREM', KEYS[2], ARGV[1])
end
return 1
