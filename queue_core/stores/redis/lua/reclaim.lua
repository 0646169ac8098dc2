-- Take running jobs back whose lease expired: to queued, to dead when it was their last, to cancelled when asked for.
-- KEYS: 1 running, 2 unfinished, 3 pending, 4 dlq, 5 cancelled, 6 cancelling, 7 types, 8 causes, 9 deaths, 10 tallies,
--       11 minutes, 12 signatures, 13 seen, then for each job its hash and its attempts
-- ARGV: for each job id, token, crashes with this one (none where it had not begun: then it is only released),
--       the failure as JSON (or empty), its line, its kind, its signature, its title
-- Returns for each job "r<rank>" (queued), "b" (buried), "c" (cancelled) or "" (not expired, or not as it was seen before).
-- with: clock
-- with: totals
-- with: waiting
-- with: note
-- with: deaths
local answers = {}
for i = 1, (#KEYS - 13) / 2 do
  local key, attempts, a = KEYS[12 + 2 * i], KEYS[13 + 2 * i], 8 * (i - 1)
  local id, token, crashes, signature = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3]), ARGV[a + 7]
  local job = redis.call('HMGET', key, 'status', 'token', 'lease_expires_at', 'crashes', 'type', 'rank', 'retry_count',
    'started_at', 'worker', 'cancel_requested', 'ahead')
  local type, rank, begun = job[5], digits(number(job[6])), job[11] and 0 or 1
  answers[i] = ''
  if job[1] ~= 'running' then
    redis.call('ZREM', KEYS[1], id)
  elseif job[2] == token and number(job[3]) < now and number(job[4]) + begun == crashes then
    if begun == 1 then
      note(attempts, number(job[7]) + crashes, token, job[8], ARGV[a + 4], job[9])
      sign(KEYS[12], KEYS[13], signature, ARGV[a + 8])
      count('crashed', type)
      redis.call('HSET', key, 'crashes', crashes, 'error', ARGV[a + 5], 'failure_kind', ARGV[a + 6], 'signature',
        signature)
    end
    redis.call('HSET', key, 'updated_at', stamp)
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested')
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[6], id)
    if ARGV[a + 6] == 'poison' then
      redis.call('HSET', key, 'status', 'dead', 'completed_at', stamp)
      redis.call('ZREM', KEYS[2], id)
      die(id, signature, type, KEYS[4], KEYS[8], KEYS[9])
      count('dead', type)
      answers[i] = 'b'
    elseif job[10] then
      redis.call('HSET', key, 'status', 'cancelled', 'completed_at', stamp)
      redis.call('HDEL', key, 'progress', 'progress_message')
      redis.call('ZREM', KEYS[2], id)
      redis.call('ZADD', KEYS[5], stamp, id)
      count('cancelled', type)
      answers[i] = 'c'
    else
      redis.call('HSET', key, 'status', 'queued')
      redis.call('HDEL', key, 'started_at', 'worker', 'progress', 'progress_message')
      redis.call('ZADD', KEYS[2], stamp, id)
      redis.call('ZADD', KEYS[3], rank, id)
      waits(type, 1)
      answers[i] = 'r' .. rank
      if begun == 0 then
        count('released', type)
      end
    end
  end
end
write_totals(KEYS[10], KEYS[11])
write_waiting(KEYS[7])
return answers
