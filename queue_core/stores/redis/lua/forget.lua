-- Forget unique keys whose time is over.
-- KEYS: 1 unique, 2 unique_ends
-- ARGV: 1 number at most
-- Returns how many these were.
-- with: clock
local over = redis.call('ZRANGE', KEYS[2], '-inf', stamp, 'BYSCORE', 'LIMIT', 0, ARGV[1])
if over[1] then
  redis.call('HDEL', KEYS[1], unpack(over))
  redis.call('ZREM', KEYS[2], unpack(over))
end
return #over
