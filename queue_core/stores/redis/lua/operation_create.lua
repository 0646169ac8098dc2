-- Write a new operation, preparing and without members.
-- KEYS: 1 operation, 2 operations:unfinished, 3 operations, 4 operations:preparing, then the operations of its signatures
-- ARGV: 1 its number, then its fields and values
-- Returns its fields and values.
-- with: clock
redis.call('HSET', KEYS[1], 'state', 'preparing', 'total', 0, 'done', 0, 'processed', 0, 'skipped', 0, 'errored', 0,
  'barrier', 0, 'created_at', stamp, 'updated_at', stamp, unpack(ARGV, 2))
redis.call('ZADD', KEYS[4], stamp, ARGV[1])
for i = 2, #KEYS do
  if i ~= 4 then
    redis.call('ZADD', KEYS[i], ARGV[1], ARGV[1])
  end
end
return redis.call('HGETALL', KEYS[1])
