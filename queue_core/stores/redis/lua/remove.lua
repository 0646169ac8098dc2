-- Remove finished jobs for good; the totals go on counting them.
-- KEYS: 1 the set they are in (completed, cancelled, dlq or trash), 2 causes, 3 tallies, 4 minutes,
--       then for each job its hash, its attempts and the set of its type
-- ARGV: 1 outcome to count, 2 us since they came into the set (or empty: whenever), then for each job id, type
-- Returns for each job 1 where this removed it, else 0.
-- with: clock
-- with: totals
local before = tonumber(ARGV[2]) and now - ARGV[2] or math.huge
local answers = {}
for i = 1, (#KEYS - 4) / 3 do
  local id, type = ARGV[1 + 2 * i], ARGV[2 + 2 * i]
  local since = tonumber(redis.call('ZSCORE', KEYS[1], id))
  answers[i] = since and since < before and 1 or 0
  if answers[i] == 1 then
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
    redis.call('DEL', KEYS[2 + 3 * i], KEYS[3 + 3 * i])
    redis.call('SREM', KEYS[4 + 3 * i], id)
    count(ARGV[1], type)
  end
end
write_totals(KEYS[3], KEYS[4])
return answers
