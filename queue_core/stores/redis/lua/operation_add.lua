-- Append members to a preparing operation; those that it has already are left out.
-- KEYS: 1 operation, 2 its members, 3 their ids, 4 operations:preparing
-- ARGV: 1 its number, then for each member its id, and its token, its place and its queue as they are kept
-- Returns the fields and values of the operation; none where there is no such operation.
-- with: clock
if redis.call('HGET', KEYS[1], 'state') == 'preparing' then
  for i = 2, #ARGV, 2 do
    if redis.call('SADD', KEYS[3], ARGV[i]) == 1 then
      redis.call('RPUSH', KEYS[2], ARGV[i + 1])
    end
  end
  redis.call('HSET', KEYS[1], 'total', redis.call('LLEN', KEYS[2]), 'updated_at', stamp)
  redis.call('ZADD', KEYS[4], stamp, ARGV[1])
end
return redis.call('HGETALL', KEYS[1])
