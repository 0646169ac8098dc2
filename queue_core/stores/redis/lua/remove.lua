-- Remove finished jobs for good; the totals go on counting them.
-- KEYS: 1 the set they are in (completed, cancelled, dlq or trash), 2 causes, 3 tallies, 4 minutes,
--       5 gates, 6 turns, 7 blocked, 8 pending, 9 unique, 10 unique_ends,
--       then for each job its hash, its attempts, its log and the set of its type; the last two: see `frozen`
-- ARGV: 1 outcome to count, 2 us since they came into the set (or empty: whenever), 3 jobs of an ordering key at a time,
--       then for each job id, type, ordering key, unique key (or empty); the last: see `frozen`
-- Returns for each job 1 where this removed it, else 0; where it let others through, a list: that, then id and rank of each.
local gates, turns, blocked, pending, most = KEYS[5], KEYS[6], KEYS[7], KEYS[8], tonumber(ARGV[3])
-- with: clock
-- with: totals
-- with: gates
-- with: frozen
local before = tonumber(ARGV[2]) and now - ARGV[2] or math.huge
local answers = {}
for i = 1, (#KEYS - 12) / 4 do
  local k, id, type, order, unique = 6 + 4 * i, unpack(ARGV, 4 * i, 4 * i + 3)
  local since = tonumber(redis.call('ZSCORE', KEYS[1], id))
  answers[i] = frozen(i, KEYS[k + 1]) and since and since < before and 1 or 0
  if answers[i] == 1 then
    mark(i)
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
    redis.call('UNLINK', KEYS[k + 1], KEYS[k + 2], KEYS[k + 3])
    redis.call('SREM', KEYS[k + 4], id)
    count(ARGV[1], type)
    if unique ~= '' and redis.call('HGET', KEYS[9], unique) == id and not redis.call('ZSCORE', KEYS[10], unique) then
      redis.call('HDEL', KEYS[9], unique)
    end
    answers[i] = told(1, order ~= '' and let_go(order, id))
  end
end
write_part()
write_totals(KEYS[3], KEYS[4])
return answers
