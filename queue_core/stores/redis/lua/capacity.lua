-- name: allowance
-- Shared: how many jobs may be claimed, of which so many begin at once; see `allowance` in queue_core/model/rules.py. `rate` keeps
-- the tokens left at a time. `concurrency` and `per_second` are empty where there is no such limit. Returns both numbers, and the
-- tokens there are now: without, and with jobs that do not begin at once.
local function allowance(most, starting, running, rate, concurrency, per_second, burst, ahead_seconds)
  if concurrency == '' and per_second == '' then
    return most, starting
  end
  starting = math.min(most, starting)
  if concurrency ~= '' then
    starting = math.min(starting, math.max(0, concurrency - redis.call('ZCARD', running)))
  end
  if per_second == '' then
    return starting, starting
  end
  local tokens, at = unpack(redis.call('HMGET', rate, 'tokens', 'at'))
  if number(at) > now then -- the clock was set back: until it had caught up, no time would pass
    redis.call('HSET', rate, 'at', stamp)
  end
  local elapsed = math.max(0, now - number(at)) / 1000000
  tokens = math.min(tonumber(burst), (tonumber(tokens) or math.huge) + elapsed * per_second)
  -- A token that is there but for rounding is there.
  starting = math.min(starting, math.floor(tokens + 1e-9))
  local ahead = math.min(tokens, burst - per_second * ahead_seconds)
  if concurrency == '' and math.floor(ahead) > starting then
    return math.min(most, math.floor(ahead)), starting, tokens, ahead
  end
  return starting, starting, tokens, tokens
end
local function spend(rate, n, starting, tokens, ahead)
  if tokens then
    redis.call('HSET', rate, 'tokens', string.format('%.17g', (n > starting and ahead or tokens) - n), 'at', stamp)
  end
end

-- name: ordering
-- Shared: an ordering key admits so many of its jobs at a time, in the order of their arrival.
-- The script names the keys `admitted`, `order_wait`, `blocked` and `pending`, and the number `most`. Members, all with score 0:
--   of `admitted` "<length of the key>:<key>:<id>": a job that it has admitted and that has not released it;
--   of `order_wait` "<length of the key>:<key>:<order of arrival, 16 digits>:<rank>:<id>": one that waits, and is in `blocked`.
local function prefix_of(key)
  return #key .. ':' .. key .. ':'
end
local function waiting_member(key, seq, rank, id)
  return prefix_of(key) .. string.format('%016.0f', number(seq)) .. ':' .. digits(number(rank)) .. ':' .. id
end
local function free_slots(prefix)
  return most - redis.call('ZLEXCOUNT', admitted, '[' .. prefix, '(' .. prefix .. '\255')
end
-- Keep when a job arrived that has a key.
local function arrived_at(seq, key, hash)
  if key then
    redis.call('HSET', hash, 'ordering_key', key, 'seq', digits(seq))
  end
end
-- Returns whether a job that becomes queued is ready.
local function admit(key, id, seq, rank, run_at)
  local prefix = prefix_of(key)
  if redis.call('ZSCORE', admitted, prefix .. id) then
    return true
  end
  if free_slots(prefix) > 0 then
    redis.call('ZADD', admitted, 0, prefix .. id)
    return true
  end
  redis.call('ZADD', order_wait, 0, waiting_member(key, seq, rank, id))
  redis.call('ZADD', blocked, run_at, id)
  return false
end
-- Forget a job that waits no longer.
local function stop_waiting(key, id, seq, rank)
  redis.call('ZREM', order_wait, waiting_member(key, seq, rank, id))
  redis.call('ZREM', blocked, id)
end
-- Release the key of a job; returns id, rank, id, rank, ... of those that it unblocks, which are ready now.
local function release_key(key, id)
  local prefix, unblocked = prefix_of(key), {}
  if redis.call('ZREM', admitted, prefix .. id) == 0 or free_slots(prefix) <= 0 then
    return unblocked
  end
  local first = redis.call('ZRANGE', order_wait, '[' .. prefix, '(' .. prefix .. '\255', 'BYLEX', 'LIMIT', 0, free_slots(prefix))
  for _, member in ipairs(first) do
    local rank, other = string.match(member, '^(%d+):(.*)$', #prefix + 18)
    redis.call('ZREM', order_wait, member)
    redis.call('ZREM', blocked, other)
    redis.call('ZADD', admitted, 0, prefix .. other)
    redis.call('ZADD', pending, rank, other)
    unblocked[#unblocked + 1] = other
    unblocked[#unblocked + 1] = rank
  end
  return unblocked
end
-- The answer about a job that may have unblocked others.
local function with_unblocked(answer, unblocked)
  return unblocked and unblocked[1] and {answer, unpack(unblocked)} or answer
end

-- name: check_capacity
-- Check whether a queue is open to jobs and has capacity for them, as far as its limits go; those that would not be written do not
--   count.
-- KEYS: 1 capacity_answer, 2 depths, 3 unfinished, 4 unique, 5 unique_expires, 6 closed, then the hashes of the jobs
-- ARGV: 1 name of this question, 2..5 the limits of the queue, of high, normal and low priorities (or empty),
--       then for each job id, priority, unique key (or empty)
-- Returns which of these four limits refuses them, 5 where the queue is closed, or 0. Leaves in `capacity_answer` "<name>:<number of queues
--   that had capacity so far>" or "<name>:full" for `insert`, which runs in the same transaction: so nothing comes in between.
-- with: clock
-- with: unique
local function band(priority)
  return priority >= 10 and 2 or priority >= 5 and 3 or 4
end
local coming, waiting, seen, requested = {0, 0, 0, 0}, {0, 0, 0, 0}, {}, {}
for i = 1, #KEYS - 6 do
  local a = 5 + 3 * (i - 1)
  local id, unique = ARGV[a + 1], ARGV[a + 3] ~= '' and ARGV[a + 3]
  local new = not seen[id] and redis.call('EXISTS', KEYS[6 + i]) == 0
  if new and unique then
    new = not requested[unique] and not holder_of(KEYS[4], KEYS[5], KEYS[3], unique)
  end
  if new then
    local limit = band(tonumber(ARGV[a + 2]))
    coming[1], coming[limit] = coming[1] + 1, coming[limit] + 1
    seen[id] = true
    if unique then
      requested[unique] = true
    end
  end
end
local depths = redis.call('HGETALL', KEYS[2])
for i = 1, #depths, 2 do
  local limit, n = band(number(string.sub(depths[i], 2))), number(depths[i + 1])
  waiting[1], waiting[limit] = waiting[1] + n, waiting[limit] + n
end
local full = 0
for limit = 4, 1, -1 do
  local most = tonumber(ARGV[1 + limit])
  if most and coming[limit] > 0 and waiting[limit] + coming[limit] > most then
    full = limit
  end
end
if coming[1] > 0 and redis.call('EXISTS', KEYS[6]) == 1 then
  full = 5
end
local answer = string.match(redis.call('GET', KEYS[1]) or '', '^' .. ARGV[1] .. ':(%w+)$')
answer = (full > 0 or answer == 'full') and 'full' or (answer or 0) + 1
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. answer, 'EX', 10)
return full

-- name: unique
-- Shared: the job that holds a unique key: while it is unfinished, or, with an entry in `ends`, whatever became of it, until
--   that time.
local function holder_of(unique, ends, unfinished, key)
  local id = redis.call('HGET', unique, key)
  local until_us = id and redis.call('ZSCORE', ends, key)
  if until_us then
    return tonumber(until_us) > now and id
  end
  return id and redis.call('ZSCORE', unfinished, id) and id
end
-- Give a free key to a job, for so many us (or nothing: while it is unfinished, which it is from now on).
local function take(unique, ends, unfinished, key, id, hash, us)
  redis.call('HSET', unique, key, id)
  redis.call('HSET', hash, 'unique_key', key)
  redis.call('ZADD', unfinished, stamp, id)
  if us then
    redis.call('ZADD', ends, digits(now + us), key)
    redis.call('HSET', hash, 'unique_until', digits(now + us))
  else
    redis.call('ZREM', ends, key)
  end
end

-- name: wait
-- Shared: the time from due to start. ARGV 1..18 are the bounds of the histogram in us, 18 means beyond the last.
local bounds = {}
for i = 1, 18 do
  bounds[i] = tonumber(ARGV[i])
end
local function count_wait(outcome, type, started_at, run_at)
  local us = math.max(0, number(started_at) - number(run_at))
  local bucket = 0
  while bucket < 18 and us > bounds[bucket + 1] do
    bucket = bucket + 1
  end
  local sum = sum_of(outcome, type)
  sum.wait = sum.wait + us
  sum.waits[bucket] = (sum.waits[bucket] or 0) + 1
end

-- name: waiting
-- Shared: how many jobs of each type wait, and of each priority: "q<priority>" queued, "d<priority>" due later. What there
--   is none of is forgotten.
local waiting, depth = {}, {q = {}, d = {}}
local function add_depth(kind, priority, n)
  depth[kind][priority] = (depth[kind][priority] or 0) + n
end
local function add_waiting(kind, type, priority, n)
  waiting[type] = (waiting[type] or 0) + n
  add_depth(kind, priority, n)
end
local function add(key, field, n)
  if n ~= 0 and redis.call('HINCRBY', key, field, n) <= 0 then
    redis.call('HDEL', key, field)
  end
end
local function write_waiting(types, depths)
  for type, n in pairs(waiting) do
    add(types, type, n)
  end
  for kind, numbers in pairs(depth) do
    for priority, n in pairs(numbers) do
      add(depths, kind .. priority, n)
    end
  end
end
