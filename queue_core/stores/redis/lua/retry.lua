-- Move dead and completed jobs to queued, or to scheduled where a delay is given, behind all that arrived before them.
-- KEYS: 1 pending, 2 scheduled, 3 unfinished, 4 completed, 5 dlq, 6 trash, 7 causes, 8 seq, 9 types, 10 tallies,
--       11 minutes, then the hashes of the jobs
-- ARGV: for each job id, delay in us (0: ready at once)
-- Returns for each job "r<rank>" (queued), "d" (scheduled) or "" (not changed).
-- with: clock
-- with: totals
-- with: waiting
local answers = {}
for i = 1, #KEYS - 11 do
  local key, id, delay = KEYS[11 + i], ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local status, type, priority = unpack(redis.call('HMGET', key, 'status', 'type', 'priority'))
  answers[i] = ''
  if status == 'dead' or status == 'completed' then
    local rank = digits((127 - number(priority)) * 35184372088832 + redis.call('INCR', KEYS[8]))
    for set = 4, 6 do
      redis.call('ZREM', KEYS[set], id)
    end
    redis.call('HDEL', KEYS[7], id)
    redis.call('HDEL', key, 'completed_at', 'trashed_at', 'result', 'started_at', 'worker', 'progress', 'progress_message')
    redis.call('HSET', key, 'status', delay > 0 and 'scheduled' or 'queued', 'updated_at', stamp, 'retry_count', 0,
      'run_at', digits(now + delay), 'rank', rank)
    redis.call('ZADD', KEYS[3], stamp, id)
    if delay > 0 then
      redis.call('ZADD', KEYS[2], digits(now + delay), id)
      answers[i] = 'd'
    else
      redis.call('ZADD', KEYS[1], rank, id)
      answers[i] = 'r' .. rank
    end
    count('retried_by_operator', type)
    waits(type, 1)
  end
end
write_totals(KEYS[10], KEYS[11])
write_waiting(KEYS[9])
return answers
