-- name: allowance
-- Shared: how many jobs may start now; see `allowance` in queue_core/model/rules.py. `rate` keeps the tokens left at a time.
-- `concurrency` and `per_second` are empty where there is no such limit. Returns that number, and the tokens there are now.
local function allowance(most, running, rate, concurrency, per_second, burst)
  if concurrency ~= '' then
    most = math.min(most, math.max(0, concurrency - redis.call('ZCARD', running)))
  end
  if per_second == '' then
    return most
  end
  local tokens, at = unpack(redis.call('HMGET', rate, 'tokens', 'at'))
  local passed = math.max(0, now - number(at)) / 1000000
  tokens = math.min(tonumber(burst), (tonumber(tokens) or math.huge) + passed * per_second)
  -- A token that is there but for rounding is there.
  return math.min(most, math.floor(tokens + 1e-9)), tokens
end
local function spend(rate, tokens, n)
  if tokens then
    redis.call('HSET', rate, 'tokens', string.format('%.17g', tokens - n), 'at', stamp)
  end
end

-- name: gates
-- Shared: an ordering key lets so many of its jobs through at a time, in the order of their arrival.
-- The script names the keys `gates`, `turns`, `blocked` and `pending`, and the number `most`. Members, all with score 0:
--   of `gates` "<length of the key>:<key>:<id>": a job that was let through and has not let go;
--   of `turns` "<length of the key>:<key>:<order of arrival, 16 digits>:<rank>:<id>": one that waits, and is in `blocked`.
local function gate_of(key)
  return #key .. ':' .. key .. ':'
end
local function turn_of(key, seq, rank, id)
  return gate_of(key) .. string.format('%016.0f', number(seq)) .. ':' .. digits(number(rank)) .. ':' .. id
end
local function room(gate)
  return most - redis.call('ZLEXCOUNT', gates, '[' .. gate, '(' .. gate .. '\255')
end
-- Keep when a job arrived that has a key.
local function arrived_at(seq, key, hash)
  if key then
    redis.call('HSET', hash, 'ordering_key', key, 'seq', digits(seq))
  end
end
-- Returns whether a job that becomes queued is ready.
local function arrive(key, id, seq, rank, run_at)
  local gate = gate_of(key)
  if redis.call('ZSCORE', gates, gate .. id) then
    return true
  end
  if room(gate) > 0 then
    redis.call('ZADD', gates, 0, gate .. id)
    return true
  end
  redis.call('ZADD', turns, 0, turn_of(key, seq, rank, id))
  redis.call('ZADD', blocked, run_at, id)
  return false
end
-- Forget a job that waits no longer.
local function leave(key, id, seq, rank)
  redis.call('ZREM', turns, turn_of(key, seq, rank, id))
  redis.call('ZREM', blocked, id)
end
-- Close the gate behind a job; returns id, rank, id, rank, ... of those whose turn it is now, which are ready by this.
local function let_go(key, id)
  local gate, opened = gate_of(key), {}
  if redis.call('ZREM', gates, gate .. id) == 0 or room(gate) <= 0 then
    return opened
  end
  local first = redis.call('ZRANGE', turns, '[' .. gate, '(' .. gate .. '\255', 'BYLEX', 'LIMIT', 0, room(gate))
  for _, turn in ipairs(first) do
    local rank, other = string.match(turn, '^(%d+):(.*)$', #gate + 18)
    redis.call('ZREM', turns, turn)
    redis.call('ZREM', blocked, other)
    redis.call('ZADD', gates, 0, gate .. other)
    redis.call('ZADD', pending, rank, other)
    opened[#opened + 1] = other
    opened[#opened + 1] = rank
  end
  return opened
end
-- What is answered of a job that may have let others through.
local function told(answer, opened)
  return opened and opened[1] and {answer, unpack(opened)} or answer
end

-- name: room
-- Look whether jobs may come into a queue, as far as its limits go; those that would not be written do not count.
-- KEYS: 1 admitted, 2 depths, 3 unfinished, 4 unique, 5 unique_ends, then the hashes of the jobs
-- ARGV: 1 name of this question, 2..5 the limits of the queue, of high, normal and low priorities (or empty),
--       then for each job id, priority, unique key (or empty)
-- Returns the place of the limit that refuses them among these four, or 0. Leaves in `admitted` "<name>:<number of queues
--   that had room so far>" or "<name>:full" for `insert`, which runs in the same transaction: so nothing comes in between.
-- with: clock
-- with: unique
local function band(priority)
  return priority >= 10 and 2 or priority >= 5 and 3 or 4
end
local coming, waiting, seen, asked = {0, 0, 0, 0}, {0, 0, 0, 0}, {}, {}
for i = 1, #KEYS - 5 do
  local a = 5 + 3 * (i - 1)
  local id, unique = ARGV[a + 1], ARGV[a + 3] ~= '' and ARGV[a + 3]
  local new = not seen[id] and redis.call('EXISTS', KEYS[5 + i]) == 0
  if new and unique then
    new = not asked[unique] and not holder_of(KEYS[4], KEYS[5], KEYS[3], unique)
  end
  if new then
    local place = band(tonumber(ARGV[a + 2]))
    coming[1], coming[place] = coming[1] + 1, coming[place] + 1
    seen[id] = true
    if unique then
      asked[unique] = true
    end
  end
end
local depths = redis.call('HGETALL', KEYS[2])
for i = 1, #depths, 2 do
  local place, n = band(number(string.sub(depths[i], 2))), number(depths[i + 1])
  waiting[1], waiting[place] = waiting[1] + n, waiting[place] + n
end
local full = 0
for place = 4, 1, -1 do
  local most = tonumber(ARGV[1 + place])
  if most and coming[place] > 0 and waiting[place] + coming[place] > most then
    full = place
  end
end
local rooms = string.match(redis.call('GET', KEYS[1]) or '', '^' .. ARGV[1] .. ':(%w+)$')
rooms = (full > 0 or rooms == 'full') and 'full' or (rooms or 0) + 1
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. rooms, 'EX', 10)
return full

-- name: unique
-- Shared: who holds a unique key: a job while it is unfinished, or, with an entry in `ends`, whatever became of it, until
--   that time.
local function holder_of(unique, ends, unfinished, key)
  local id = redis.call('HGET', unique, key)
  local til = id and redis.call('ZSCORE', ends, key)
  if til then
    return tonumber(til) > now and id
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
local function stands(place, priority, n)
  depth[place][priority] = (depth[place][priority] or 0) + n
end
local function waits(place, type, priority, n)
  waiting[type] = (waiting[type] or 0) + n
  stands(place, priority, n)
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
  for place, numbers in pairs(depth) do
    for priority, n in pairs(numbers) do
      add(depths, place .. priority, n)
    end
  end
end
