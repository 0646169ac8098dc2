-- Take a schedule out of its queue, for another one.
-- KEYS: 1 the schedule's hash, 2 ticks, 3 the ticks of it that have passed
-- ARGV: 1 name
-- Returns the fields of the hash, and the members of the last 1,000 ticks, oldest first.
local fields = redis.call('HGETALL', KEYS[1])
local passed = redis.call('ZRANGE', KEYS[3], -1000, -1)
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('ZREM', KEYS[2], ARGV[1])
return {fields, passed}
