-- Shared: operations end. KEYS: 1 operation, 2 operations:unfinished, 3 operations:ended. ARGV: 1 its number.
local function end_it(state)
  redis.call('HSET', KEYS[1], 'state', state, 'finished_at', stamp)
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZADD', KEYS[3], stamp, ARGV[1])
end
-- A running one is done behind its last member.
local function end_behind_last()
  local state, done, total = unpack(redis.call('HMGET', KEYS[1], 'state', 'done', 'total'))
  if state == 'running' and done == total then
    end_it('done')
  end
end
