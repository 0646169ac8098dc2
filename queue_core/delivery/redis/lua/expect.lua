-- Note that somebody waits for a job to finish, and forget those whose wait is over.
-- KEYS: 1 waiters (ZSET id -> time in ms until which somebody waits)
-- ARGV: 1 id, 2 milliseconds to wait
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], 'GT', now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[2]))
return 1
