-- Move running jobs whose lease still holds to retrying, back to queued at their place, or anew, as jobs that arrive now, to
--   queued or scheduled; those that somebody asked to cancel to cancelled.
-- KEYS: 1 running, 2 unfinished, 3 pending, 4 retrying, 5 cancelled, 6 cancelling, 7 types, 8 tallies, 9 minutes,
--       10 signatures, 11 seen, 12 scheduled, 13 seq, 14 depths, 15 gates, 16 turns, 17 blocked, 18 arrival, then for each
--       job its hash and its attempts
-- ARGV: 1..18 bounds of the histogram in us, 19 jobs of an ordering key at a time, 20 aging in us (or 0), then for each job
--       id, token, kind, run time in us, its bucket, delay in us, 1 or "" (anew), run_at in us or "", the failure (see `note`)
-- Returns for each job "r<rank>" (queued), "d<us>" (due then), "w" (waits for its ordering key), "c" (cancelled), "k" (this
--   outcome was written before) or "" (lease over); where it let others through, a list: that, then id and rank of each.
local gates, turns, blocked, pending, most = KEYS[15], KEYS[16], KEYS[17], KEYS[3], tonumber(ARGV[19])
-- with: clock
-- with: totals
-- with: wait
-- with: waiting
-- with: fence
-- with: note
-- with: rank
-- with: gates
local answers = {}
for i = 1, (#KEYS - 18) / 2 do
  local key, attempts, a = KEYS[17 + 2 * i], KEYS[18 + 2 * i], 20 + 13 * (i - 1)
  local id, token, kind, delay = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 6]
  local job = redis.call('HMGET', key, 'status', 'token', 'ended', 'cancel_requested', 'type', 'rank', 'retry_count',
    'crashes', 'run_at', 'started_at', 'worker', 'priority', 'ordering_key', 'losses')
  local type, rank, run_at, started_at = job[5], digits(number(job[6])), job[9], job[10]
  local retries, order, outcome, opened = number(job[7]), job[13], kind == 'retrying' and 'retried' or kind, nil
  local held = fence(job[1], job[2], job[3], token, kind)
  answers[i] = held == 2 and 'k' or ''
  if held == 1 then
    if ARGV[a + 11] == 'timeout' then
      count('timed_out', type)
    end
    if ARGV[a + 9] ~= '' then -- crashes, losses and retries are counted apart; an attempt's number counts them all
      fail(key, attempts, KEYS[10], KEYS[11], retries + number(job[8]) + number(job[14]) + 1, token, started_at, job[11], a + 8)
    end
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested', 'progress', 'progress_message')
    redis.call('HSET', key, 'updated_at', stamp, 'ended', ending(job[3], token, kind))
    if job[4] then
      outcome, opened = 'cancelled', order and let_go(order, id)
      redis.call('HDEL', KEYS[6], id)
      redis.call('HSET', key, 'status', 'cancelled', 'completed_at', stamp)
      redis.call('ZREM', KEYS[2], id)
      redis.call('ZADD', KEYS[5], stamp, id)
      count_wait('cancelled', type, started_at, run_at)
      answers[i] = 'c'
    else
      local status, due, seq = 'queued', now, nil
      redis.call('HDEL', key, 'started_at', 'worker')
      redis.call('ZADD', KEYS[2], stamp, id)
      if kind == 'retrying' then
        status, due = kind, now + delay
        redis.call('HSET', key, 'retry_count', retries + 1, 'run_at', digits(due))
      elseif ARGV[a + 7] ~= '' then
        opened, seq, due = order and let_go(order, id), redis.call('INCR', KEYS[13]), tonumber(ARGV[a + 8]) or now + delay
        status, due = due > now and 'scheduled' or 'queued', math.max(now, due)
        rank = rank_of(number(job[12]), seq, due, tonumber(ARGV[20]), KEYS[18])
        redis.call('HSET', key, 'rank', rank, 'run_at', digits(due))
        arrived_at(seq, order, key)
      end
      redis.call('HSET', key, 'status', status)
      waits(status == 'queued' and 'q' or 'd', type, number(job[12]), 1)
      if status ~= 'queued' then
        redis.call('ZADD', status == 'retrying' and KEYS[4] or KEYS[12], digits(due), id)
        answers[i] = 'd' .. digits(due)
      elseif order and seq and not arrive(order, id, seq, rank, stamp) then
        answers[i] = 'w'
      else
        redis.call('ZADD', KEYS[3], rank, id)
        answers[i] = 'r' .. rank
      end
    end
    count(outcome, type)
    count_run(outcome, type, ARGV[a + 4], ARGV[a + 5])
    answers[i] = told(answers[i], opened)
  end
end
write_totals(KEYS[8], KEYS[9])
write_waiting(KEYS[7], KEYS[14])
return answers
