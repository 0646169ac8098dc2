-- Move running jobs whose lease still holds to dead.
-- KEYS: 1 running, 2 unfinished, 3 dlq, 4 cancelling, 5 causes, 6 deaths, 7 tallies, 8 minutes, 9 signatures, 10 seen,
--       11 gates, 12 turns, 13 blocked, 14 pending, then for each job its hash and its attempts
-- ARGV: 1..18 bounds of the histogram in us, 19 jobs of an ordering key at a time, 20 1 where dead ones count (or empty),
--       then for each job id, token, kind, run time in us, its bucket, the failure as JSON (or empty), its line, its kind,
--       its signature, its title
-- Returns for each job 1 (written), 2 (this outcome was written before) or 0 (the lease is over); where it let others
--   through, a list: that, then id and rank of each.
local gates, turns, blocked, pending, most = KEYS[11], KEYS[12], KEYS[13], KEYS[14], tonumber(ARGV[19])
-- with: clock
-- with: totals
-- with: wait
-- with: fence
-- with: note
-- with: deaths
-- with: gates
local answers = {}
for i = 1, (#KEYS - 14) / 2 do
  local key, attempts, a = KEYS[13 + 2 * i], KEYS[14 + 2 * i], 20 + 10 * (i - 1)
  local id, token, kind, failure, signature = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 6], ARGV[a + 9]
  local job = redis.call('HMGET', key, 'status', 'token', 'ended', 'cancel_requested', 'type', 'retry_count', 'crashes',
    'run_at', 'started_at', 'worker', 'ordering_key', 'losses')
  local type, started_at = job[5], job[9]
  answers[i] = fence(job[1], job[2], job[3], token, kind)
  if answers[i] == 1 then
    if ARGV[a + 8] == 'timeout' then
      count('timed_out', type)
    end
    count(kind, type)
    count_run(kind, type, ARGV[a + 4], ARGV[a + 5])
    count_wait(kind, type, started_at, job[8])
    if failure ~= '' then
      fail(key, attempts, KEYS[9], KEYS[10], number(job[6]) + number(job[7]) + number(job[12]) + 1, token, started_at, job[10], a + 5)
    end
    redis.call('HSET', key, 'status', 'dead', 'updated_at', stamp, 'completed_at', stamp, 'ended', ending(job[3], token, kind))
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested')
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
    if job[4] then
      redis.call('HDEL', KEYS[4], id)
    end
    die(id, signature, type, KEYS[3], KEYS[5], KEYS[6])
    if job[11] and ARGV[20] == '' then
      answers[i] = told(1, let_go(job[11], id))
    end
  end
end
write_totals(KEYS[7], KEYS[8])
return answers
