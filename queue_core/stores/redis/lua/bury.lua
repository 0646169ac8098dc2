-- Move running jobs whose lease still holds to dead.
-- KEYS: 1 running, 2 unfinished, 3 dlq, 4 cancelling, 5 causes, 6 deaths, 7 tallies, 8 minutes, 9 signatures, 10 seen,
--       then for each job its hash and its attempts
-- ARGV: 1..18 bounds of the histogram in us, then for each job id, token, kind, run time in us, its bucket,
--       the failure as JSON (or empty), its line, its kind, its signature, its title
-- Returns for each job 1 (written), 2 (this outcome was written before) or 0 (the lease is over).
-- with: clock
-- with: totals
-- with: wait
-- with: fence
-- with: note
-- with: deaths
local answers = {}
for i = 1, (#KEYS - 10) / 2 do
  local key, attempts, a = KEYS[9 + 2 * i], KEYS[10 + 2 * i], 18 + 10 * (i - 1)
  local id, token, kind, failure, signature = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 6], ARGV[a + 9]
  local job = redis.call('HMGET', key, 'status', 'token', 'ended', 'cancel_requested', 'type', 'retry_count', 'crashes',
    'run_at', 'started_at', 'worker')
  local type, crashes, started_at = job[5], number(job[7]), job[9]
  answers[i] = fence(job[1], job[2], job[3], token, kind)
  if answers[i] == 1 then
    if ARGV[a + 8] == 'timeout' then
      count('timed_out', type)
    end
    count(kind, type)
    count_run(kind, type, ARGV[a + 4], ARGV[a + 5])
    count_wait(kind, type, started_at, job[8])
    if failure ~= '' then
      note(attempts, number(job[6]) + crashes + 1, token, started_at, failure, job[10])
      sign(KEYS[9], KEYS[10], signature, ARGV[a + 10])
      redis.call('HSET', key, 'error', ARGV[a + 7], 'failure_kind', ARGV[a + 8], 'signature', signature)
    end
    if ARGV[a + 8] == 'poison' then
      redis.call('HSET', key, 'crashes', crashes + 1)
    end
    redis.call('HSET', key, 'status', 'dead', 'updated_at', stamp, 'completed_at', stamp, 'ended', ending(job[3], token, kind))
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested')
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
    if job[4] then
      redis.call('HDEL', KEYS[4], id)
    end
    die(id, signature, type, KEYS[3], KEYS[5], KEYS[6])
  end
end
write_totals(KEYS[7], KEYS[8])
return answers
