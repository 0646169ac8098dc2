-- Move running jobs whose lease still holds to retrying, back to queued at their place, or anew, as jobs that arrive now,
--   to queued or scheduled; those that somebody asked to cancel to cancelled.
-- KEYS: 1 running, 2 unfinished, 3 pending, 4 retrying, 5 cancelled, 6 cancelling, 7 types, 8 tallies, 9 minutes,
--       10 signatures, 11 seen, 12 scheduled, 13 seq, then for each job its hash and its attempts
-- ARGV: 1..18 bounds of the histogram in us, then for each job id, token, kind, run time in us, its bucket, delay in us,
--       1 or "" (anew), run_at in us or "", the failure as JSON or "", its line, its kind, its signature, its title
-- Returns for each job "r<rank>" (queued), "d<us>" (due then), "c" (cancelled), "k" (this outcome was written before) or ""
--   (the lease is over).
-- with: clock
-- with: totals
-- with: wait
-- with: waiting
-- with: fence
-- with: note
local answers = {}
for i = 1, (#KEYS - 13) / 2 do
  local key, attempts, a = KEYS[12 + 2 * i], KEYS[13 + 2 * i], 18 + 13 * (i - 1)
  local id, token, kind, delay, failure = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 6], ARGV[a + 9]
  local job = redis.call('HMGET', key, 'status', 'token', 'ended', 'cancel_requested', 'type', 'rank', 'retry_count',
    'crashes', 'run_at', 'started_at', 'worker')
  local type, rank, started_at = job[5], digits(number(job[6])), job[10]
  local held = fence(job[1], job[2], job[3], token, kind)
  answers[i] = held == 2 and 'k' or ''
  if held == 1 then
    local cancel, retries, run_at, retry = job[4], number(job[7]), job[9], kind == 'retrying'
    if ARGV[a + 11] == 'timeout' then
      count('timed_out', type)
    end
    if failure ~= '' then
      -- Crashes and retries are counted apart; an attempt's number counts both.
      note(attempts, retries + number(job[8]) + 1, token, started_at, failure, job[11])
      sign(KEYS[10], KEYS[11], ARGV[a + 12], ARGV[a + 13])
      redis.call('HSET', key, 'error', ARGV[a + 10], 'failure_kind', ARGV[a + 11], 'signature', ARGV[a + 12])
    end
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested', 'progress', 'progress_message')
    redis.call('HSET', key, 'updated_at', stamp, 'ended', ending(job[3], token, kind))
    if cancel then
      redis.call('HDEL', KEYS[6], id)
      redis.call('HSET', key, 'status', 'cancelled', 'completed_at', stamp)
      redis.call('ZREM', KEYS[2], id)
      redis.call('ZADD', KEYS[5], stamp, id)
      count('cancelled', type)
      count_run('cancelled', type, ARGV[a + 4], ARGV[a + 5])
      count_wait('cancelled', type, started_at, run_at)
      answers[i] = 'c'
    else
      redis.call('HDEL', key, 'started_at', 'worker')
      redis.call('ZADD', KEYS[2], stamp, id)
      waits(type, 1)
      if retry then
        run_at = digits(now + delay)
        redis.call('HSET', key, 'status', kind, 'retry_count', retries + 1, 'run_at', run_at)
        redis.call('ZADD', KEYS[4], run_at, id)
        answers[i] = 'd' .. run_at
      else
        local due = 0
        if ARGV[a + 7] ~= '' then -- the rank keeps its priority and gets the next number of arrival
          rank = digits(rank - rank % 35184372088832 + redis.call('INCR', KEYS[13]))
          due = math.max(now, tonumber(ARGV[a + 8]) or now + delay)
          redis.call('HSET', key, 'rank', rank, 'run_at', digits(due))
        end
        if due > now then
          redis.call('HSET', key, 'status', 'scheduled')
          redis.call('ZADD', KEYS[12], digits(due), id)
          answers[i] = 'd' .. digits(due)
        else
          redis.call('HSET', key, 'status', 'queued')
          redis.call('ZADD', KEYS[3], rank, id)
          answers[i] = 'r' .. rank
        end
      end
      count(retry and 'retried' or kind, type)
      count_run(retry and 'retried' or kind, type, ARGV[a + 4], ARGV[a + 5])
    end
  end
end
write_totals(KEYS[8], KEYS[9])
write_waiting(KEYS[7])
return answers
