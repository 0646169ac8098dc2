-- Prolong the leases that still hold and record their progress.
-- KEYS: 1 running, then the hashes of the jobs
-- ARGV: 1 lease in us from now, then for each job id, token, progress (or empty), message, 1 if it has begun
-- Returns for each job 1 where its lease holds, else 0.
-- with: clock
local expiry = digits(now + ARGV[1])
local answers = {}
for i = 1, #KEYS - 1 do
  local key, a = KEYS[1 + i], 1 + 5 * (i - 1)
  local status, token, progress = unpack(redis.call('HMGET', key, 'status', 'token', 'progress'))
  answers[i] = status == 'running' and token == ARGV[a + 2] and 1 or 0
  if answers[i] == 1 then
    redis.call('HSET', key, 'lease_expires_at', expiry)
    redis.call('ZADD', KEYS[1], expiry, ARGV[a + 1])
    if ARGV[a + 5] == '1' then
      redis.call('HDEL', key, 'ahead')
    end
    local told = tonumber(ARGV[a + 3])
    if told then
      told = math.max(number(progress), math.min(told, 100))
      redis.call('HSET', key, 'progress', told, 'progress_message', ARGV[a + 4])
    end
  end
end
return answers
