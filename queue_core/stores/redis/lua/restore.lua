-- Move jobs from the trash back into the DLQ, where they stand at the time of their death.
-- KEYS: 1 dlq, 2 trash, then the hashes of the jobs
-- ARGV: the ids
-- Returns for each job 1 where this changed it, else 0.
-- with: clock
local answers = {}
for i, id in ipairs(ARGV) do
  answers[i] = redis.call('ZREM', KEYS[2], id)
  if answers[i] == 1 then
    local died = digits(number(redis.call('HGET', KEYS[2 + i], 'completed_at')))
    redis.call('ZADD', KEYS[1], died, id)
    redis.call('HSET', KEYS[2 + i], 'updated_at', died)
    redis.call('HDEL', KEYS[2 + i], 'trashed_at')
  end
end
return answers
