-- Count the next members of a running operation, whose jobs the parts of this step have changed where they were as frozen.
-- KEYS: 1 operation, 2 operations:unfinished, 3 operations:ended, 4 its marks, then of each member the changes of its job
-- ARGV: 1 its number, 2 members done, as seen, 3 "<name of the step> <number of its parts>" (or empty: there are none)
-- Returns 1 (counted), 0 (not as seen: somebody else was sooner) or -1 (a part did not run, or a job was elsewhere), then the
--   fields and values of the operation; only the number where there is no such operation.
-- with: clock
-- with: operation
local state, done, step, rate, next_at = unpack(redis.call('HMGET', KEYS[1], 'state', 'done', 'step', 'rate', 'next_at'))
local answer, members, changed = 0, #KEYS - 4, 0
if state == 'running' and done == ARGV[2] then
  answer = (ARGV[3] == '' or step == ARGV[3]) and 1 or -1
end
if answer == 1 then
  local marked = redis.call('GETRANGE', KEYS[4], done, done + members - 1)
  for i = 1, members do
    if string.sub(marked, i, i) == '1' then
      changed = changed + 1
      redis.call('ZADD', KEYS[4 + i], ARGV[1], ARGV[1])
      redis.call('ZREMRANGEBYRANK', KEYS[4 + i], 0, -1001)
    end
  end
  redis.call('HDEL', KEYS[1], 'step')
  redis.call('HSET', KEYS[1], 'updated_at', stamp)
  redis.call('HINCRBY', KEYS[1], 'done', members)
  redis.call('HINCRBY', KEYS[1], 'processed', changed)
  redis.call('HINCRBY', KEYS[1], 'skipped', members - changed)
  if rate then
    redis.call('HSET', KEYS[1], 'next_at', digits(math.max(now, number(next_at)) + 1000000 * members / rate))
  end
  end_behind_last()
end
return {answer, unpack(redis.call('HGETALL', KEYS[1]))}
