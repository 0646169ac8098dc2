-- Take running jobs back whose lease expired: to queued, to dead when it was their last, to cancelled when asked for.
-- KEYS: 1 running, 2 unfinished, 3 pending, 4 dlq, 5 cancelled, 6 cancelling, 7 types, 8 causes, 9 deaths, 10 tallies,
--       11 minutes, 12 signatures, 13 seen, 14 depths, 15 gates, 16 turns, 17 blocked, then for each job its hash and its
--       attempts
-- ARGV: 1 jobs of an ordering key at a time, 2 1 where dead ones count (or empty), 3 losses that bury a job, then for each job
--       id, token, losses with this one (none where it had not begun: then it is only released), the failure as JSON (or empty), its
--       line, its kind, its signature, its title
-- Returns for each job "r<rank>" (queued), "b" (buried), "c" (cancelled) or "" (not expired, or not as it was seen before);
--   where it let others through, a list: that, then id and rank of each.
local gates, turns, blocked, pending, most = KEYS[15], KEYS[16], KEYS[17], KEYS[3], tonumber(ARGV[1])
-- with: clock
-- with: totals
-- with: waiting
-- with: note
-- with: deaths
-- with: gates
local answers = {}
for i = 1, (#KEYS - 17) / 2 do
  local key, attempts, a = KEYS[16 + 2 * i], KEYS[17 + 2 * i], 3 + 8 * (i - 1)
  local id, token, losses, signature = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3]), ARGV[a + 7]
  local job = redis.call('HMGET', key, 'status', 'token', 'lease_expires_at', 'losses', 'type', 'rank', 'retry_count',
    'started_at', 'worker', 'cancel_requested', 'ahead', 'priority', 'ordering_key', 'crashes')
  local type, rank, begun, order = job[5], digits(number(job[6])), job[11] and 0 or 1, job[13]
  answers[i] = ''
  if job[1] ~= 'running' then
    redis.call('ZREM', KEYS[1], id)
  elseif job[2] == token and number(job[3]) < now and number(job[4]) + begun == losses then
    if begun == 1 then
      fail(key, attempts, KEYS[12], KEYS[13], number(job[7]) + number(job[14]) + losses, token, job[8], job[9], a + 3)
      count('crashed', type)
    end
    redis.call('HSET', key, 'updated_at', stamp)
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested')
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[6], id)
    if begun == 1 and losses >= tonumber(ARGV[3]) then
      redis.call('HSET', key, 'status', 'dead', 'completed_at', stamp)
      redis.call('ZREM', KEYS[2], id)
      die(id, signature, type, KEYS[4], KEYS[8], KEYS[9])
      count('dead', type)
      answers[i] = told('b', order and ARGV[2] == '' and let_go(order, id))
    elseif job[10] then
      redis.call('HSET', key, 'status', 'cancelled', 'completed_at', stamp)
      redis.call('HDEL', key, 'progress', 'progress_message')
      redis.call('ZREM', KEYS[2], id)
      redis.call('ZADD', KEYS[5], stamp, id)
      count('cancelled', type)
      answers[i] = told('c', order and let_go(order, id))
    else
      redis.call('HSET', key, 'status', 'queued')
      redis.call('HDEL', key, 'started_at', 'worker', 'progress', 'progress_message')
      redis.call('ZADD', KEYS[2], stamp, id)
      redis.call('ZADD', KEYS[3], rank, id)
      waits('q', type, number(job[12]), 1)
      answers[i] = 'r' .. rank
      if begun == 0 then
        count('released', type)
      end
    end
  end
end
write_totals(KEYS[10], KEYS[11])
write_waiting(KEYS[7], KEYS[14])
return answers
