-- Take the queues whose time has come. Until they are put back they stay at the end of time, where any note moves them forward.
-- KEYS: 1 hints (ZSET queue -> us)
-- ARGV: 1 how many at most
-- Returns the time in us, then these queues, the earliest first.
-- with: clock
local queues = redis.call('ZRANGE', KEYS[1], '-inf', stamp, 'BYSCORE', 'LIMIT', 0, ARGV[1])
for _, queue in ipairs(queues) do
  redis.call('ZADD', KEYS[1], '+inf', queue)
end
return {stamp, unpack(queues)}
