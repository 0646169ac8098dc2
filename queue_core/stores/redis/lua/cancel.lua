-- Move waiting jobs to cancelled; note for the workers of running ones that they are to stop them.
-- KEYS: 1 pending, 2 offered, 3 scheduled, 4 retrying, 5 unfinished, 6 cancelled, 7 cancelling, 8 types, 9 tallies,
--       10 minutes, 11 depths, 12 gates, 13 turns, 14 blocked, then the hashes of the jobs; the last two: see
--       `frozen`
-- ARGV: 1 jobs of an ordering key at a time, then the ids; the last: see `frozen`
-- Returns for each job 1 where this changed it, else 0; where it let others through, a list: that, then id and rank of each.
local gates, turns, blocked, pending, most = KEYS[12], KEYS[13], KEYS[14], KEYS[1], tonumber(ARGV[1])
-- with: clock
-- with: totals
-- with: waiting
-- with: gates
-- with: frozen
local answers = {}
for i = 1, #KEYS - 16 do
  local key, id = KEYS[14 + i], ARGV[1 + i]
  local status, type, worker, asked, priority, order, seq, rank = unpack(redis.call('HMGET', key, 'status', 'type', 'worker',
    'cancel_requested', 'priority', 'ordering_key', 'seq', 'rank'))
  status = frozen(i, key) and status
  answers[i] = 0
  if status == 'running' and not asked then
    redis.call('HSET', key, 'cancel_requested', 1)
    redis.call('HSET', KEYS[7], id, worker)
    mark(i)
    answers[i] = 1
  elseif status == 'queued' or status == 'scheduled' or status == 'retrying' then
    for set = 1, 5 do
      redis.call('ZREM', KEYS[set], id)
    end
    redis.call('HSET', key, 'status', 'cancelled', 'updated_at', stamp, 'completed_at', stamp)
    redis.call('ZADD', KEYS[6], stamp, id)
    count('cancelled', type)
    waits(status == 'queued' and 'q' or 'd', type, number(priority), -1)
    mark(i)
    answers[i] = 1
    if order then
      leave(order, id, seq, rank)
      answers[i] = told(1, let_go(order, id))
    end
  end
end
write_part()
write_totals(KEYS[9], KEYS[10])
write_waiting(KEYS[8], KEYS[11])
return answers
