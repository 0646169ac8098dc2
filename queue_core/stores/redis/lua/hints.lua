-- name: hint
-- Store that queues have something due at a time, or before it; the leader is notified of a new earliest time.
-- KEYS: 1 hints (ZSET queue -> us)
-- ARGV: 1 channel (or empty: no message), 2 message, 3 1 where times are us from now (or empty), then for each queue
--       time in us, queue
-- Returns the time in us, then when the last of these queues is looked at, in us.
-- with: clock
local before = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
for i = 4, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], 'LT', ARGV[3] == '1' and digits(now + ARGV[i]) or ARGV[i], ARGV[i + 1])
end
if ARGV[1] ~= '' and redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] ~= before then
  redis.pcall('PUBLISH', ARGV[1], ARGV[2])
end
return {stamp, redis.call('ZSCORE', KEYS[1], ARGV[#ARGV])}

-- name: hints_take
-- Take the queues whose time has come. Until they are put back they stay at the end of time, where any hint moves them forward.
-- KEYS: 1 hints (ZSET queue -> us)
-- ARGV: 1 how many at most
-- Returns the time in us, then these queues, the earliest first.
-- with: clock
local queues = redis.call('ZRANGE', KEYS[1], '-inf', stamp, 'BYSCORE', 'LIMIT', 0, ARGV[1])
for _, queue in ipairs(queues) do
  redis.call('ZADD', KEYS[1], '+inf', queue)
end
return {stamp, unpack(queues)}
