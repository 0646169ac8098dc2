-- Move jobs from the trash back into the DLQ, where they stand at the time of their death.
-- KEYS: 1 dlq, 2 trash, then the hashes of the jobs; the last two: see `frozen`
-- ARGV: the ids; the last: see `frozen`
-- Returns for each job 1 where this changed it, else 0.
-- with: clock
-- with: frozen
-- with: renew
local answers = {}
for i = 1, #KEYS - 4 do
  local key, id = KEYS[2 + i], ARGV[i]
  answers[i] = frozen(i, key) and redis.call('ZREM', KEYS[2], id) or 0
  if answers[i] == 1 then
    mark(i)
    local died = digits(number(redis.call('HGET', key, 'completed_at')))
    redis.call('ZADD', KEYS[1], died, id)
    redis.call('HSET', key, 'updated_at', died)
    redis.call('HDEL', key, 'trashed_at')
    renew(key)
  end
end
write_part()
return answers
