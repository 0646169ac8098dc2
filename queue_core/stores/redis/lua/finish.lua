-- Move running jobs whose lease still holds to completed or cancelled.
-- KEYS: 1 running, 2 unfinished, 3 completed, 4 cancelled, 5 cancelling, 6 tallies, 7 minutes, 8 gates, 9 turns, 10 blocked,
--       11 pending, then the jobs' hashes
-- ARGV: 1..18 bounds of the histogram in us, 19 jobs of an ordering key at a time, then for each job id, token, kind, run
--       time in us, its bucket, the result as JSON behind a '+' (or empty)
-- Returns for each job 1 (written), 2 (this outcome was written before) or 0 (the lease is over); where it let others
--   through, a list: that, then id and rank of each.
local gates, turns, blocked, pending, most = KEYS[8], KEYS[9], KEYS[10], KEYS[11], tonumber(ARGV[19])
-- with: clock
-- with: totals
-- with: wait
-- with: fence
-- with: gates
local answers, ids, sets = {}, {}, {completed = {}, cancelled = {}}
for i = 1, #KEYS - 11 do
  local key, a = KEYS[11 + i], 19 + 6 * (i - 1)
  local id, token, kind, result = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 6]
  local status, held, type, run_at, started_at, ended, cancel, order = unpack(redis.call('HMGET', key, 'status', 'token',
    'type', 'run_at', 'started_at', 'ended', 'cancel_requested', 'ordering_key'))
  answers[i] = fence(status, held, ended, token, kind)
  if answers[i] == 1 then
    local fields = {'status', kind, 'updated_at', stamp, 'completed_at', stamp, 'ended', ending(ended, token, kind)}
    if kind == 'completed' then
      fields[9], fields[10] = 'progress', '100'
    end
    if result ~= '' then
      fields[#fields + 1] = 'result'
      fields[#fields + 1] = string.sub(result, 2)
    end
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested', 'progress', 'progress_message')
    redis.call('HSET', key, unpack(fields))
    if cancel then
      redis.call('HDEL', KEYS[5], id)
    end
    count(kind, type)
    count_run(kind, type, ARGV[a + 4], ARGV[a + 5])
    count_wait(kind, type, started_at, run_at)
    ids[#ids + 1] = id
    local set = sets[kind]
    set[#set + 1] = stamp
    set[#set + 1] = id
    if order then
      answers[i] = told(1, let_go(order, id))
    end
  end
end
if #ids > 0 then
  redis.call('ZREM', KEYS[1], unpack(ids))
  redis.call('ZREM', KEYS[2], unpack(ids))
end
for key, set in pairs({[KEYS[3]] = sets.completed, [KEYS[4]] = sets.cancelled}) do
  if #set > 0 then
    redis.call('ZADD', key, unpack(set))
  end
end
write_totals(KEYS[6], KEYS[7])
return answers
