-- name: bury
-- Move running jobs whose lease still holds to dead.
-- KEYS: 1 running, 2 unfinished, 3 dlq, 4 cancelling, 5 errors, 6 deaths, 7 tallies, 8 minutes, 9 signatures, 10 last_seen,
--       11 admitted, 12 order_wait, 13 blocked, 14 pending, 15 signature_releases, 16 type_releases, then for each job its hash and its
--       attempts
-- ARGV: 1..18 bounds of the histogram in us, 19 jobs of an ordering key at a time, 20 1 where dead ones count (or empty),
--       then for each job id, token, kind, run time in us, its bucket, the failure as JSON (or empty), its line, its kind,
--       its signature, its title
-- Returns for each job 1 (written), 2 (this outcome was written before) or 0 (the lease is over); where it unblocked others,
--   a list: that, then id and rank of each.
local admitted, order_wait, blocked, pending, most = KEYS[11], KEYS[12], KEYS[13], KEYS[14], tonumber(ARGV[19])
-- with: clock
-- with: totals
-- with: wait
-- with: fence
-- with: failure
-- with: deaths
-- with: by_release
-- with: ordering
local answers = {}
for i = 1, (#KEYS - 16) / 2 do
  local key, attempts, a = KEYS[15 + 2 * i], KEYS[16 + 2 * i], 20 + 10 * (i - 1)
  local id, token, kind, failure, signature = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 6], ARGV[a + 9]
  local job = redis.call('HMGET', key, 'status', 'token', 'ended', 'cancel_requested', 'type', 'retry_count', 'crashes',
    'run_at', 'started_at', 'worker', 'ordering_key', 'losses', 'release')
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
      fail(key, attempts, KEYS[9], KEYS[10], number(job[6]) + number(job[7]) + number(job[12]) + 1, token, started_at, job[10], job[13], a + 5)
    end
    redis.call('HSET', key, 'status', 'dead', 'updated_at', stamp, 'completed_at', stamp, 'ended', ending(job[3], token, kind))
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested')
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
    if job[4] then
      redis.call('HDEL', KEYS[4], id)
    end
    die(id, signature, type, KEYS[3], KEYS[5], KEYS[6])
    died_on(KEYS[15], signature, job[13], started_at)
    ran(type, job[13], 0, 1)
    if job[11] and ARGV[20] == '' then
      answers[i] = with_unblocked(1, release_key(job[11], id))
    end
  end
end
write_totals(KEYS[7], KEYS[8])
write_runs(KEYS[16])
return answers

-- name: end_leases
-- End the leases of a worker, so that the next reclaim takes its jobs back.
-- KEYS: 1 running, then the hashes of the jobs
-- ARGV: 1 worker, 2 1 where they have not started (or empty), then the ids
-- Returns how many have ended.
-- with: clock
local ended, til = 0, digits(now - 1)
for i = 1, #KEYS - 1 do
  local key = KEYS[1 + i]
  local status, worker = unpack(redis.call('HMGET', key, 'status', 'worker'))
  if status == 'running' and worker == ARGV[1] then
    redis.call('HSET', key, 'lease_expires_at', til)
    if ARGV[2] == '1' then
      redis.call('HSET', key, 'ahead', 1)
    end
    redis.call('ZADD', KEYS[1], til, ARGV[2 + i])
    ended = ended + 1
  end
end
return ended

-- name: fence
-- Shared: which outcomes may end an attempt. The field `ended` keeps the last eight endings as "<token><letter> ".
local LETTERS = {completed = 'c', cancelled = 'x', retrying = 'r', released = 'l', dead = 'd'}
-- Returns 1: the lease holds; 2: this very outcome was written before; 0: the lease is over.
local function fence(status, held, ended, token, kind)
  if status == 'running' and held == token then
    return 1
  end
  return ended and string.find(ended, token .. LETTERS[kind], 1, true) and 2 or 0
end
local function ending(ended, token, kind)
  return string.sub((ended or '') .. token .. LETTERS[kind] .. ' ', -168)
end

-- name: finish
-- Move running jobs whose lease still holds to completed or cancelled.
-- KEYS: 1 running, 2 unfinished, 3 completed, 4 cancelled, 5 cancelling, 6 tallies, 7 minutes, 8 admitted, 9 order_wait, 10 blocked,
--       11 pending, 12 type_releases, then the jobs' hashes
-- ARGV: 1..18 bounds of the histogram in us, 19 jobs of an ordering key at a time, then for each job id, token, kind, run
--       time in us, its bucket, the result as JSON behind a '+' (or empty)
-- Returns for each job 1 (written), 2 (this outcome was written before) or 0 (the lease is over); where it unblocked others,
--   a list: that, then id and rank of each.
local admitted, order_wait, blocked, pending, most = KEYS[8], KEYS[9], KEYS[10], KEYS[11], tonumber(ARGV[19])
-- with: clock
-- with: totals
-- with: by_release
-- with: wait
-- with: fence
-- with: ordering
local answers, ids, sets = {}, {}, {completed = {}, cancelled = {}}
for i = 1, #KEYS - 12 do
  local key, a = KEYS[12 + i], 19 + 6 * (i - 1)
  local id, token, kind, result = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 6]
  local status, held, type, run_at, started_at, ended, cancel, order, release = unpack(redis.call('HMGET', key, 'status', 'token',
    'type', 'run_at', 'started_at', 'ended', 'cancel_requested', 'ordering_key', 'release'))
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
    if kind == 'completed' then
      ran(type, release, 1, 0)
    end
    count_run(kind, type, ARGV[a + 4], ARGV[a + 5])
    count_wait(kind, type, started_at, run_at)
    ids[#ids + 1] = id
    local set = sets[kind]
    set[#set + 1] = stamp
    set[#set + 1] = id
    if order then
      answers[i] = with_unblocked(1, release_key(order, id))
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
write_runs(KEYS[12])
return answers

-- name: promote
-- Move jobs that are due to queued.
-- KEYS: 1 scheduled, 2 retrying, 3 pending, 4 unfinished, 5 depths, 6 admitted, 7 order_wait, 8 blocked, then the hashes
--       of the jobs
-- ARGV: 1 jobs of an ordering key at a time, then the ids
-- Returns for each job its rank, or "" where it is not due, not there, or waits for its ordering key.
local admitted, order_wait, blocked, pending, most = KEYS[6], KEYS[7], KEYS[8], KEYS[3], tonumber(ARGV[1])
-- with: clock
-- with: waiting
-- with: ordering
local answers, keyed = {}, {}
local function ready(i, id, rank)
  redis.call('ZADD', pending, rank, id)
  answers[i] = rank
end
for i = 1, #KEYS - 8 do
  local key, id = KEYS[8 + i], ARGV[1 + i]
  local status, rank, run_at, priority, order, seq = unpack(redis.call('HMGET', key, 'status', 'rank', 'run_at', 'priority',
    'ordering_key', 'seq'))
  answers[i], rank = '', digits(number(rank))
  if status ~= 'scheduled' and status ~= 'retrying' then
    -- Nothing that this store wrote: an entry without its job would be found due for ever.
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
  elseif number(run_at) <= now then
    redis.call('ZREM', status == 'scheduled' and KEYS[1] or KEYS[2], id)
    redis.call('ZADD', KEYS[4], stamp, id)
    redis.call('HSET', key, 'status', 'queued', 'updated_at', stamp)
    add_depth('d', number(priority), -1)
    add_depth('q', number(priority), 1)
    if order then
      keyed[#keyed + 1] = {number(seq), i, id, order, rank, digits(number(run_at))}
    else
      ready(i, id, rank)
    end
  end
end
-- A key admits those of them that arrived first, whichever was due first.
table.sort(keyed, function(one, other)
  return one[1] < other[1]
end)
for _, job in ipairs(keyed) do
  local seq, i, id, order, rank, run_at = unpack(job)
  if admit(order, id, seq, rank, run_at) then
    ready(i, id, rank)
  end
end
write_waiting(nil, KEYS[5])
return answers

-- name: reclaim
-- Take running jobs back whose lease expired: to queued, to dead when it was their last, to cancelled when asked for.
-- KEYS: 1 running, 2 unfinished, 3 pending, 4 dlq, 5 cancelled, 6 cancelling, 7 types, 8 errors, 9 deaths, 10 tallies,
--       11 minutes, 12 signatures, 13 last_seen, 14 depths, 15 admitted, 16 order_wait, 17 blocked, 18 signature_releases,
--       19 type_releases, then for each job its hash and its attempts
-- ARGV: 1 jobs of an ordering key at a time, 2 1 where dead ones count (or empty), 3 losses that bury a job, then for each job
--       id, token, losses with this one (none where it had not started: then it is only released), the failure as JSON (or empty), its
--       line, its kind, its signature, its title
-- Returns for each job "r<rank>" (queued), "b" (buried), "c" (cancelled) or "" (not expired, or not as it was seen before);
--   where it unblocked others, a list: that, then id and rank of each.
local admitted, order_wait, blocked, pending, most = KEYS[15], KEYS[16], KEYS[17], KEYS[3], tonumber(ARGV[1])
-- with: clock
-- with: totals
-- with: waiting
-- with: failure
-- with: deaths
-- with: by_release
-- with: ordering
local answers = {}
for i = 1, (#KEYS - 19) / 2 do
  local key, attempts, a = KEYS[18 + 2 * i], KEYS[19 + 2 * i], 3 + 8 * (i - 1)
  local id, token, losses, signature = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3]), ARGV[a + 7]
  local job = redis.call('HMGET', key, 'status', 'token', 'lease_expires_at', 'losses', 'type', 'rank', 'retry_count',
    'started_at', 'worker', 'cancel_requested', 'ahead', 'priority', 'ordering_key', 'crashes', 'release')
  local type, rank, started, order = job[5], digits(number(job[6])), job[11] and 0 or 1, job[13]
  answers[i] = ''
  if job[1] ~= 'running' then
    redis.call('ZREM', KEYS[1], id)
  elseif job[2] == token and number(job[3]) < now and number(job[4]) + started == losses then
    if started == 1 then
      fail(key, attempts, KEYS[12], KEYS[13], number(job[7]) + number(job[14]) + losses, token, job[8], job[9], job[15], a + 3)
      count('crashed', type)
    end
    redis.call('HSET', key, 'updated_at', stamp)
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested')
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[6], id)
    if started == 1 and losses >= tonumber(ARGV[3]) then
      redis.call('HSET', key, 'status', 'dead', 'completed_at', stamp)
      redis.call('ZREM', KEYS[2], id)
      die(id, signature, type, KEYS[4], KEYS[8], KEYS[9])
      died_on(KEYS[18], signature, job[15], job[8])
      ran(type, job[15], 0, 1)
      count('dead', type)
      answers[i] = with_unblocked('b', order and ARGV[2] == '' and release_key(order, id))
    elseif job[10] then
      redis.call('HSET', key, 'status', 'cancelled', 'completed_at', stamp)
      redis.call('HDEL', key, 'progress', 'progress_message')
      redis.call('ZREM', KEYS[2], id)
      redis.call('ZADD', KEYS[5], stamp, id)
      count('cancelled', type)
      answers[i] = with_unblocked('c', order and release_key(order, id))
    else
      redis.call('HSET', key, 'status', 'queued')
      redis.call('HDEL', key, 'started_at', 'worker', 'release', 'progress', 'progress_message')
      redis.call('ZADD', KEYS[2], stamp, id)
      redis.call('ZADD', KEYS[3], rank, id)
      add_waiting('q', type, number(job[12]), 1)
      answers[i] = 'r' .. rank
      if started == 0 then
        count('released', type)
      end
    end
  end
end
write_totals(KEYS[10], KEYS[11])
write_runs(KEYS[19])
write_waiting(KEYS[7], KEYS[14])
return answers

-- name: requeue
-- Move running jobs whose lease still holds to retrying, back to queued at their rank, or behind the others, as jobs that arrive now, to
--   queued or scheduled; those with a cancel request to cancelled.
-- KEYS: 1 running, 2 unfinished, 3 pending, 4 retrying, 5 cancelled, 6 cancelling, 7 types, 8 tallies, 9 minutes,
--       10 signatures, 11 last_seen, 12 scheduled, 13 seq, 14 depths, 15 admitted, 16 order_wait, 17 blocked, 18 arrival, then for each
--       job its hash and its attempts
-- ARGV: 1..18 bounds of the histogram in us, 19 jobs of an ordering key at a time, 20 aging in us (or 0), then for each job
--       id, token, kind, run time in us, its bucket, delay in us, 1 or "" (arrives now), run_at in us or "", the failure (see `failure`)
-- Returns for each job "r<rank>" (queued), "d<us>" (due then), "w" (waits for its ordering key), "c" (cancelled), "k" (this
--   outcome was written before) or "" (lease over); where it unblocked others, a list: that, then id and rank of each.
local admitted, order_wait, blocked, pending, most = KEYS[15], KEYS[16], KEYS[17], KEYS[3], tonumber(ARGV[19])
-- with: clock
-- with: totals
-- with: wait
-- with: waiting
-- with: fence
-- with: failure
-- with: rank
-- with: ordering
local answers = {}
for i = 1, (#KEYS - 18) / 2 do
  local key, attempts, a = KEYS[17 + 2 * i], KEYS[18 + 2 * i], 20 + 13 * (i - 1)
  local id, token, kind, delay = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 6]
  local job = redis.call('HMGET', key, 'status', 'token', 'ended', 'cancel_requested', 'type', 'rank', 'retry_count',
    'crashes', 'run_at', 'started_at', 'worker', 'priority', 'ordering_key', 'losses', 'release')
  local type, rank, run_at, started_at = job[5], digits(number(job[6])), job[9], job[10]
  local retries, order, outcome, unblocked = number(job[7]), job[13], kind == 'retrying' and 'retried' or kind, nil
  local held = fence(job[1], job[2], job[3], token, kind)
  answers[i] = held == 2 and 'k' or ''
  if held == 1 then
    if ARGV[a + 11] == 'timeout' then
      count('timed_out', type)
    end
    if ARGV[a + 9] ~= '' then -- crashes, losses and retries are counted apart; an attempt's number counts them all
      fail(key, attempts, KEYS[10], KEYS[11], retries + number(job[8]) + number(job[14]) + 1, token, started_at, job[11], job[15], a + 8)
    end
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', key, 'lease_expires_at', 'claim', 'ahead', 'cancel_requested', 'progress', 'progress_message')
    redis.call('HSET', key, 'updated_at', stamp, 'ended', ending(job[3], token, kind))
    if job[4] then
      outcome, unblocked = 'cancelled', order and release_key(order, id)
      redis.call('HDEL', KEYS[6], id)
      redis.call('HSET', key, 'status', 'cancelled', 'completed_at', stamp)
      redis.call('ZREM', KEYS[2], id)
      redis.call('ZADD', KEYS[5], stamp, id)
      count_wait('cancelled', type, started_at, run_at)
      answers[i] = 'c'
    else
      local status, due, seq = 'queued', now, nil
      redis.call('HDEL', key, 'started_at', 'worker', 'release')
      redis.call('ZADD', KEYS[2], stamp, id)
      if kind == 'retrying' then
        status, due = kind, now + delay
        redis.call('HSET', key, 'retry_count', retries + 1, 'run_at', digits(due))
      elseif ARGV[a + 7] ~= '' then
        unblocked, seq, due = order and release_key(order, id), redis.call('INCR', KEYS[13]), tonumber(ARGV[a + 8]) or now + delay
        status, due = due > now and 'scheduled' or 'queued', math.max(now, due)
        rank = rank_of(number(job[12]), seq, due, tonumber(ARGV[20]), KEYS[18])
        redis.call('HSET', key, 'rank', rank, 'run_at', digits(due))
        arrived_at(seq, order, key)
      end
      redis.call('HSET', key, 'status', status)
      add_waiting(status == 'queued' and 'q' or 'd', type, number(job[12]), 1)
      if status ~= 'queued' then
        redis.call('ZADD', status == 'retrying' and KEYS[4] or KEYS[12], digits(due), id)
        answers[i] = 'd' .. digits(due)
      elseif order and seq and not admit(order, id, seq, rank, stamp) then
        answers[i] = 'w'
      else
        redis.call('ZADD', KEYS[3], rank, id)
        answers[i] = 'r' .. rank
      end
    end
    count(outcome, type)
    count_run(outcome, type, ARGV[a + 4], ARGV[a + 5])
    answers[i] = with_unblocked(answers[i], unblocked)
  end
end
write_totals(KEYS[8], KEYS[9])
write_waiting(KEYS[7], KEYS[14])
return answers
