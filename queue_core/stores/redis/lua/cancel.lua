-- Move waiting jobs to cancelled; note for the workers of running ones that they are to stop them.
-- KEYS: 1 pending, 2 offered, 3 scheduled, 4 retrying, 5 unfinished, 6 cancelled, 7 cancelling, 8 types, 9 tallies,
--       10 minutes, then the hashes of the jobs
-- ARGV: the ids
-- Returns for each job 1 where this changed it, else 0.
-- with: clock
-- with: totals
-- with: waiting
local answers = {}
for i, id in ipairs(ARGV) do
  local key = KEYS[10 + i]
  local status, type, worker, asked = unpack(redis.call('HMGET', key, 'status', 'type', 'worker', 'cancel_requested'))
  answers[i] = 0
  if status == 'running' and not asked then
    redis.call('HSET', key, 'cancel_requested', 1)
    redis.call('HSET', KEYS[7], id, worker)
    answers[i] = 1
  elseif status == 'queued' or status == 'scheduled' or status == 'retrying' then
    for set = 1, 5 do
      redis.call('ZREM', KEYS[set], id)
    end
    redis.call('HSET', key, 'status', 'cancelled', 'updated_at', stamp, 'completed_at', stamp)
    redis.call('ZADD', KEYS[6], stamp, id)
    count('cancelled', type)
    waits(type, -1)
    answers[i] = 1
  end
end
write_totals(KEYS[9], KEYS[10])
write_waiting(KEYS[8])
return answers
