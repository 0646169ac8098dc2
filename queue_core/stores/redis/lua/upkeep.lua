-- name: agree
-- Compare the number of unfinished jobs with those in the sets of their states.
-- KEYS: 1 unfinished, then these sets
-- Returns 1, or 0 where they differ.
local jobs = redis.call('ZCARD', KEYS[1])
for i = 2, #KEYS do
  jobs = jobs - redis.call('ZCARD', KEYS[i])
end
return jobs == 0 and 1 or 0

-- name: forget
-- Forget unique keys whose time is over.
-- KEYS: 1 unique, 2 unique_expires
-- ARGV: 1 number at most
-- Returns how many these were.
-- with: clock
local over = redis.call('ZRANGE', KEYS[2], '-inf', stamp, 'BYSCORE', 'LIMIT', 0, ARGV[1])
if over[1] then
  redis.call('HDEL', KEYS[1], unpack(over))
  redis.call('ZREM', KEYS[2], unpack(over))
end
return #over

-- name: lead
-- Take or renew the leadership of a duty.
-- KEYS: 1 leaders
-- ARGV: 1 duty, 2 worker, 3 us, 4 channel on which the others hear of it (or empty), 5 message
-- Returns 1, or 0 while another worker holds it. An entry: us until which it is held, the worker.
-- with: clock
local til, leader = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (.*)$')
if leader and leader ~= ARGV[2] and number(til) >= now then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], digits(now + ARGV[3]) .. ' ' .. ARGV[2])
if ARGV[4] ~= '' then
  redis.pcall('PUBLISH', ARGV[4], ARGV[5])
end
return 1

-- name: resign
-- Give up all duties that a worker leads.
-- KEYS: 1 leaders
-- ARGV: 1 worker, 2 duty whose missing leader is announced, 3 channel, 4 message
-- Returns their number.
local duties, given = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #duties, 2 do
  if string.match(duties[i + 1], '^%d+ (.*)$') == ARGV[1] then
    given = given + redis.call('HDEL', KEYS[1], duties[i])
    if duties[i] == ARGV[2] then
      redis.pcall('PUBLISH', ARGV[3], ARGV[4])
    end
  end
end
return given

-- name: put_right
-- Put jobs into the set that their state asks for, and into no other one.
-- KEYS: 1 unfinished, 2 pending, 3 blocked, 4 scheduled, 5 retrying, 6 running, 7 completed, 8 cancelled, 9 dlq, 10 admitted, 11 order_wait,
--       then the hashes of the jobs
-- ARGV: 1 jobs of an ordering key at a time, 2 1 where dead ones count (or empty), then the ids
-- Returns how many of them were elsewhere.
local admitted, order_wait, blocked, pending, most = KEYS[10], KEYS[11], KEYS[3], KEYS[2], tonumber(ARGV[1])
-- with: clock
-- with: ordering
local SETS = {queued = 2, scheduled = 4, retrying = 5, running = 6, completed = 7, cancelled = 8, dead = 9}
local changed, elsewhere = 0, 0
local function holds(id)
  return redis.call('ZSCORE', KEYS[1], id) or ARGV[2] ~= '' and redis.call('ZSCORE', KEYS[9], id)
end
-- The set of a queued job with an ordering key, which those let go of that have ended.
local function set_of(order, id, seq, rank)
  local prefix = prefix_of(order)
  for _, member in ipairs(redis.call('ZRANGE', admitted, '[' .. prefix, '(' .. prefix .. '\255', 'BYLEX')) do
    if not holds(string.sub(member, #prefix + 1)) then
      changed = changed + redis.call('ZREM', admitted, member)
    end
  end
  if not redis.call('ZSCORE', admitted, prefix .. id) then
    redis.call('ZADD', order_wait, 0, waiting_member(order, seq, rank, id))
    -- as where a job ends that is not there: those come next that arrived first
    redis.call('ZADD', admitted, 0, prefix)
    changed = changed + #release_key(order, '')
  end
  return redis.call('ZSCORE', admitted, prefix .. id) and 2 or 3
end
for i = 1, #ARGV - 2 do
  local id, key = ARGV[2 + i], KEYS[11 + i]
  local job = redis.call('HMGET', key, 'status', 'rank', 'run_at', 'lease_expires_at', 'completed_at', 'updated_at', 'ordering_key', 'seq',
    'trashed_at')
  local status, rank, run_at, order, seq, before = job[1], digits(number(job[2])), job[3] or stamp, job[7], job[8], changed
  local set = not job[9] and SETS[status]
  if status == 'queued' and order then
    set = set_of(order, id, seq, rank)
  end
  if set == 2 and order then
    stop_waiting(order, id, seq, rank)
  end
  local scores = {[2] = rank, [3] = run_at, [4] = run_at, [5] = run_at, [6] = job[4] or stamp}
  if set and set <= 6 then
    changed = changed + redis.call('ZADD', KEYS[1], 'NX', job[6] or stamp, id)
  else
    changed = changed + redis.call('ZREM', KEYS[1], id)
  end
  for other = 2, 6 do
    if other ~= set then
      changed = changed + redis.call('ZREM', KEYS[other], id)
    end
  end
  if set then
    changed = changed + redis.call('ZADD', KEYS[set], 'NX', scores[set] or job[5] or stamp, id)
  end
  if order and not (set and set <= 6) and not holds(id) then
    changed = changed + #release_key(order, id)
  end
  elsewhere = elsewhere + (changed > before and 1 or 0)
end
return elsewhere
