-- Move dead jobs to the trash.
-- KEYS: 1 dlq, 2 trash, then the hashes of the jobs
-- ARGV: the ids
-- Returns for each job 1 where this changed it, else 0.
-- with: clock
local answers = {}
for i, id in ipairs(ARGV) do
  answers[i] = redis.call('ZREM', KEYS[1], id)
  if answers[i] == 1 then
    redis.call('ZADD', KEYS[2], stamp, id)
    redis.call('HSET', KEYS[2 + i], 'trashed_at', stamp, 'updated_at', stamp)
  end
end
return answers
