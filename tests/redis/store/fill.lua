-- Fill the sets of a queue with members that no hash belongs to.
-- KEYS: 1 pending, 2 scheduled, 3 running, 4 completed, 5 unfinished, 6 the set of a type
-- ARGV: 1 how many are there, 2 how many to add
local now = redis.call('TIME')[1] * 1000000
for i = 1, ARGV[2] do
  local id = string.format('0197aaaa-0000-7000-8000-%012x', ARGV[1] + i)
  redis.call('ZADD', KEYS[1], 4292493394837504 + ARGV[1] + i, id)
  for set = 2, 4 do
    redis.call('ZADD', KEYS[set], now + 3600000000 + i, id)
  end
  redis.call('ZADD', KEYS[5], now + i, id)
  redis.call('SADD', KEYS[6], id)
end
