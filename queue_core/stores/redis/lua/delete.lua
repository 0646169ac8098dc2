-- Move dead jobs to the trash.
-- KEYS: 1 dlq, 2 trash, 3 gates, 4 turns, 5 blocked, 6 pending, then the hashes of the jobs; the last two: see `frozen`
-- ARGV: 1 jobs of an ordering key at a time, then the ids; the last: see `frozen`
-- Returns for each job 1 where this changed it, else 0; where it let others through, a list: that, then id and rank of each.
local gates, turns, blocked, pending, most = KEYS[3], KEYS[4], KEYS[5], KEYS[6], tonumber(ARGV[1])
-- with: clock
-- with: gates
-- with: frozen
-- with: renew
local answers = {}
for i = 1, #KEYS - 8 do
  local key, id = KEYS[6 + i], ARGV[1 + i]
  answers[i] = frozen(i, key) and redis.call('ZREM', KEYS[1], id) or 0
  if answers[i] == 1 then
    mark(i)
    redis.call('ZADD', KEYS[2], stamp, id)
    redis.call('HSET', key, 'trashed_at', stamp, 'updated_at', stamp)
    renew(key)
    local order = redis.call('HGET', key, 'ordering_key')
    answers[i] = told(1, order and let_go(order, id))
  end
end
write_part()
return answers
