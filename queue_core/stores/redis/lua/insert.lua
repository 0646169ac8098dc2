-- name: insert
-- Write jobs as queued or scheduled; those whose ids are known here stay as they are, and so do holders of unique keys.
-- KEYS: 1 pending, 2 scheduled, 3 unfinished, 4 seq, 5 types, 6 tallies, 7 minutes, 8 depths, 9 admitted, 10 order_wait, 11 blocked,
--       12 unique, 13 unique_expires, 14 arrival, 15 capacity_answer, then for each job its hash and the set of its type, then `closed` of queues
-- ARGV: 1 aging in us (or 0), 2 jobs of an ordering key at a time, 3 what `check_capacity` leaves in `capacity_answer` (empty: there are no limits),
--       then for each job id, type, payload, priority, max_retries, tags (JSON or empty), delay in us, run_at in us (or
--       empty), its keys (empty: none; else JSON: ordering key, unique key, us for which it is unique; false for none), headers (JSON or empty)
-- Returns the order of arrival before these jobs (0: the queue is new), then for each job "k" (known before) with the id of
--   the one that holds its unique key, "r<rank>" (ready), "d<us>" (due then) or "w" (waits for its ordering key); or, having
--   changed nothing, "full" where `check_capacity` has refused them, "ask" where that has to be called, "closed" with the place of
--   a closed queue, where not all of these jobs are known.
local admitted, order_wait, blocked, pending, most = KEYS[9], KEYS[10], KEYS[11], KEYS[1], tonumber(ARGV[2])
-- with: clock
-- with: totals
-- with: waiting
-- with: rank
-- with: ordering
-- with: unique
-- with: refusal
-- with: job
local jobs = (#ARGV - 3) / 10
local refused = refusal_of(jobs)
if refused then
  return refused
end
local sequence = redis.call('INCRBY', KEYS[4], jobs) - jobs
local answers = {sequence}
return whole(jobs, function()
  for i = 1, jobs do
    answers[1 + i] = write_job(i, sequence + i)
  end
  for key, set in pairs({[KEYS[1]] = ready, [KEYS[2]] = due, [KEYS[3]] = changed}) do
    if #set > 0 then
      redis.call('ZADD', key, unpack(set))
    end
  end
  for key, ids in pairs(of_type) do
    redis.call('SADD', key, unpack(ids))
  end
  write_totals(KEYS[6], KEYS[7])
  write_waiting(KEYS[5], KEYS[8])
  return answers
end)

-- name: job
-- Shared: write a job of `insert`, whose keys these are, but for what is written for all of them at once.
local ready, due, changed, of_type, aging, rows = {}, {}, {}, {}, tonumber(ARGV[1]), {}
local function write_job(i, seq)
  local key, type_key, a = KEYS[14 + 2 * i], KEYS[15 + 2 * i], 3 + 10 * (i - 1)
  local id, type, priority, order, unique, unique_us = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 4])
  if ARGV[a + 9] ~= '' then
    order, unique, unique_us = unpack(cjson.decode(ARGV[a + 9]))
  end
  local known = known_of(key, unique)
  if known then
    return 'k' .. known
  end
  local run_at = math.max(now, tonumber(ARGV[a + 8]) or now + ARGV[a + 7])
  local rank, due_at = rank_of(priority, seq, run_at, aging, KEYS[14]), stamp
  local status, place, set, score = 'queued', 'q', ready, rank
  if run_at > now then
    due_at = digits(run_at)
    status, place, set, score = 'scheduled', 'd', due, due_at
  end
  redis.call('HSET', key, 'type', type, 'payload', ARGV[a + 3], 'status', status, 'priority', ARGV[a + 4], 'max_retries',
    ARGV[a + 5], 'rank', rank, 'created_at', stamp, 'updated_at', stamp, 'run_at', due_at)
  rows[#rows + 1] = {key, type_key, id, order, unique, seq, rank}
  if ARGV[a + 6] ~= '' then
    redis.call('HSET', key, 'tags', ARGV[a + 6])
  end
  if ARGV[a + 10] ~= '' then
    redis.call('HSET', key, 'headers', ARGV[a + 10])
  end
  if unique then
    take(KEYS[12], KEYS[13], KEYS[3], unique, id, key, unique_us)
  end
  arrived_at(seq, order, key)
  of_type[type_key] = of_type[type_key] or {}
  table.insert(of_type[type_key], id)
  changed[#changed + 1] = stamp
  changed[#changed + 1] = id
  count('enqueued', type)
  add_waiting(place, type, priority, 1)
  if order and status == 'queued' and not admit(order, id, seq, rank, stamp) then
    return 'w'
  end
  set[#set + 1] = score
  set[#set + 1] = id
  return status == 'queued' and 'r' .. rank or 'd' .. due_at
end
-- A script that fails in its middle keeps what it has written by then, as where the user lacks a command or a key holds
-- something else: the jobs are taken back before it fails.
local function whole(jobs, write)
  local ok, answer = pcall(write)
  if ok then
    return answer
  end
  for _, row in ipairs(rows) do
    local key, type_key, id, order, unique, seq, rank = unpack(row)
    redis.pcall('DEL', key)
    for set = 1, 3 do
      redis.pcall('ZREM', KEYS[set], id)
    end
    redis.pcall('SREM', type_key, id)
    if unique then
      redis.pcall('HDEL', KEYS[12], unique)
      redis.pcall('ZREM', KEYS[13], unique)
    end
    if order then
      redis.pcall('ZREM', admitted, prefix_of(order) .. id)
      pcall(stop_waiting, order, id, seq, rank)
    end
  end
  redis.pcall('INCRBY', KEYS[4], -jobs)
  return type(answer) == 'table' and answer or redis.error_reply(answer)
end

-- name: insert_plain
-- Write jobs that are ready at once as `insert` does, where no rule of their queue concerns them.
-- KEYS: 1 pending, 2 unfinished, 3 seq, 4 types, 5 tallies, 6 minutes, 7 depths, then `closed` of queues, and what `write_plain` takes
-- ARGV: 1 jobs, 2 queues whose `closed` is asked for, then what `write_plain` takes
-- Returns what `write_plain` does; or, having changed nothing, "closed" with the place of a closed queue, where not all of
--   these jobs are known.
-- with: plain_or_nothing
local jobs, before = tonumber(ARGV[1]), 7 + ARGV[2]
local known, refused = known_of(8, before, jobs)
return refused or write_plain(before, jobs, 2, known)

-- name: insert_offered
-- Write jobs as `insert_plain` does; offer them to workers, and publish their events. Neither an offer nor an event that
--   fails undoes anything: the audit offers, and events are hints.
-- KEYS: 1 pending, 2 unfinished, 3 seq, 4 types, 5 tallies, 6 minutes, 7 depths, 8 offered (ZSET id -> rank), 9 event_seq,
--       10 generation, 11 sleepers (there while workers wait for messages), 12 closed, then what `write_plain` takes
-- ARGV: 1 jobs, 2 channel of events, 3 queue as JSON, 4 time in seconds, 5 channel of wake-ups (empty: workers wait on `offered`), 6 queue,
--       then for each job its event as JSON, then what `write_plain` takes
-- Returns what `insert_plain` does.
-- with: plain_or_nothing
local jobs = tonumber(ARGV[1])
local known, refused = known_of(12, 12, jobs)
if refused then
  return refused
end
local answers, ready = write_plain(12, jobs, 6 + jobs, known)
if #ready == 0 then
  return answers
end
redis.pcall('ZADD', KEYS[8], unpack(ready))
if ARGV[5] ~= '' and redis.pcall('EXISTS', KEYS[11]) == 1 then
  redis.pcall('PUBLISH', ARGV[5], ARGV[6])
end
local events, place = {}, 2
for i = 1, jobs do
  if answers[place] == i then
    place = place + 1
  else
    events[#events + 1] = ARGV[6 + i]
  end
end
local n, generation = redis.pcall('INCR', KEYS[9]), redis.pcall('GET', KEYS[10])
if type(n) == 'number' and type(generation) ~= 'table' then
  redis.pcall('PUBLISH', ARGV[2], '{"v":1,"queue":' .. ARGV[3] .. ',"gen":"' .. (generation or '') .. '","n":' .. n ..
    ',"at":' .. ARGV[4] .. ',"events":[' .. table.concat(events, ',') .. ']}')
end
return answers

-- name: plain
-- Shared: write jobs that are ready at once, and that no rule of their queue concerns. What many of them have in common comes once.
-- KEYS behind those of queues: the hashes of the jobs, then for each kind of them the set of its type
-- ARGV behind `a`: 1 characters of a hash's key before the id, 2 kinds, then for each kind its type, priority, max_retries, tags
--   (JSON or empty) and headers (JSON or empty), then for each job the number of its kind and its payload
-- Returns the order of arrival before these jobs (0: the queue is new) and the places of those that were known before, which stay
--   as they are; then rank and id of those that are ready.
-- with: clock
-- with: rank
-- with: minute
local function known_of(closed, before, jobs)
  -- Lua unpacks 8,000 values at most.
  if before - closed < 1000 and redis.call('EXISTS', unpack(KEYS, closed, before + jobs)) == 0 then
    return 0
  end
  local known = redis.call('EXISTS', unpack(KEYS, before + 1, before + jobs))
  for place = closed, known < jobs and before or 0 do
    if redis.call('EXISTS', KEYS[place]) == 1 then
      return known, {'closed', place - closed + 1}
    end
  end
  return known
end
local ready, changed, of_kind = {}, {}, {}
local function write_rows(before, jobs, a, known)
  local answers, written = {redis.call('INCRBY', KEYS[3], jobs) - jobs}, {}
  local sequence = answers[1]
  local start, kinds = ARGV[a + 1] + 1, a + 2
  local place = kinds + 5 * ARGV[a + 2]
  for i = 1, jobs do
    local key = KEYS[before + i]
    local id, kind = string.sub(key, start), ARGV[place + 1]
    if written[id] or known > 0 and redis.call('EXISTS', key) == 1 then
      answers[#answers + 1] = i
    else
      local at = kinds + 5 * (kind - 1)
      local rank, tags, headers = rank_of(ARGV[at + 2], sequence + i, now, 0), ARGV[at + 4], ARGV[at + 5]
      redis.call('HSET', key, 'type', ARGV[at + 1], 'payload', ARGV[place + 2], 'status', 'queued', 'priority', ARGV[at + 2],
        'max_retries', ARGV[at + 3], 'rank', rank, 'created_at', stamp, 'updated_at', stamp, 'run_at', stamp)
      if tags ~= '' then
        redis.call('HSET', key, 'tags', tags)
      end
      if headers ~= '' then
        redis.call('HSET', key, 'headers', headers)
      end
      local n, ids = #ready, of_kind[kind]
      if ids then
        ids[#ids + 1] = id
      else
        of_kind[kind] = {id}
      end
      ready[n + 1], ready[n + 2], changed[n + 1], changed[n + 2], written[id] = rank, id, stamp, id, true
    end
    place = place + 2
  end
  if #ready == 0 then
    return answers
  end
  redis.call('ZADD', KEYS[1], unpack(ready))
  redis.call('ZADD', KEYS[2], unpack(changed))
  for kind, ids in pairs(of_kind) do
    local at = kinds + 5 * (kind - 1)
    redis.call('SADD', KEYS[before + jobs + kind], unpack(ids))
    redis.call('HINCRBY', KEYS[4], ARGV[at + 1], #ids)
    redis.call('HINCRBY', KEYS[5], 'enqueued:n:' .. ARGV[at + 1], #ids)
    redis.call('HINCRBY', KEYS[7], 'q' .. ARGV[at + 2], #ids)
  end
  in_minute(KEYS[6], 'enqueued', #ready / 2)
  return answers
end

-- name: plain_or_nothing
-- Shared: write jobs as `plain` does; where that fails in its middle, take back what was written, as `job` does, and answer with the
--   error, and with no jobs that are ready.
-- with: plain
local function write_plain(before, jobs, a, known)
  local ok, answers = pcall(write_rows, before, jobs, a, known)
  if ok then
    return answers, ready
  end
  local prefix = string.sub(KEYS[before + 1], 1, ARGV[a + 1])
  for i = 2, #changed, 2 do
    redis.pcall('DEL', prefix .. changed[i])
    redis.pcall('ZREM', KEYS[1], changed[i])
    redis.pcall('ZREM', KEYS[2], changed[i])
  end
  for kind, ids in pairs(of_kind) do
    redis.pcall('SREM', KEYS[before + jobs + kind], unpack(ids))
  end
  redis.pcall('INCRBY', KEYS[3], -jobs)
  return type(answers) == 'table' and answers or redis.error_reply(answers), {}
end

-- name: refusal
-- Shared: the answer of `insert`, whose keys these are, to jobs that it does not write: there is no room, or one of the queues that
--   they go into together is closed, and one of them is not known.
local function known_of(key, unique)
  return redis.call('EXISTS', key) == 1 and '' or unique and holder_of(KEYS[12], KEYS[13], KEYS[3], unique)
end
local function refusal_of(jobs)
  local answer = ARGV[3] ~= '' and redis.call('GET', KEYS[15])
  if ARGV[3] ~= '' and answer ~= ARGV[3] then
    return {answer == string.match(ARGV[3], '^%x+') .. ':full' and 'full' or 'ask'}
  end
  for place = 16 + 2 * jobs, #KEYS do
    if redis.call('EXISTS', KEYS[place]) == 1 then
      for i = 1, jobs do
        local keys = ARGV[10 * i + 2]
        if not known_of(KEYS[14 + 2 * i], keys ~= '' and cjson.decode(keys)[2]) then
          return {'closed', place - 15 - 2 * jobs}
        end
      end
    end
  end
end

-- name: rank
-- Shared: the order of a job that arrives now: by priority, then by arrival; with aging (us, or 0), by the time of its
--   arrival or, where that is later, of its being due, put off by so much for each step of priority. Arrivals only grow.
local arrived
local function rank_of(priority, seq, run_at, aging, arrival)
  if aging == 0 then
    return digits((127 - priority) * 35184372088832 + seq)
  end
  local at = run_at
  if run_at <= now then
    arrived = math.max(run_at, (arrived or number(redis.call('GET', arrival))) + 1)
    redis.call('SET', arrival, digits(arrived))
    at = arrived
  end
  return digits(math.max(0, at - 1577836800000000) + (127 - priority) * aging)
end
