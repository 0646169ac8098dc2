-- Write a schedule; its next tick stays as it is, unless cron, tz or type have changed, and it stays paused if it was.
-- KEYS: 1 the schedule's hash, 2 ticks
-- ARGV: 1 name, 2 cron, 3 tz, 4 type, 5 payload, 6 priority, 7 max_retries, 8 ordering key (or empty), 9 next tick in us
-- Returns the next tick.
local old = redis.call('HMGET', KEYS[1], 'cron', 'tz', 'type', 'next')
local same = old[1] == ARGV[2] and old[2] == ARGV[3] and old[3] == ARGV[4]
local tick = same and old[4] or ARGV[9]
redis.call('HSET', KEYS[1], 'cron', ARGV[2], 'tz', ARGV[3], 'type', ARGV[4], 'payload', ARGV[5], 'priority', ARGV[6],
  'max_retries', ARGV[7], 'ordering_key', ARGV[8], 'next', tick)
if redis.call('HEXISTS', KEYS[1], 'paused') == 1 then
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('ZADD', KEYS[2], tick, ARGV[1])
end
return tick
