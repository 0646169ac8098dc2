-- Let time pass without waiting: everything that was, was earlier.
-- KEYS: all keys of a store
-- ARGV: 1 microseconds
local by = tonumber(ARGV[1])
local TIMES = {'next', 'last', 'at', 'unique_until', 'created_at', 'updated_at', 'run_at', 'started_at', 'completed_at', 'lease_expires_at', 'trashed_at'}
local BY_TIME = {scheduled = true, retrying = true, running = true, unfinished = true, completed = true,
  cancelled = true, dlq = true, trash = true, seen = true, ticks = true,
  blocked = true, unique_ends = true}
local function earlier(text)
  return string.format('%.0f', math.max(0, tonumber(text) - by))
end
local function shift_hash(key)
  for _, field in ipairs(TIMES) do
    local value = redis.call('HGET', key, field)
    if value then
      redis.call('HSET', key, field, earlier(value))
    end
  end
end
-- A rank that is not made of the job's priority is made of the time of its arrival.
local aged = {}
local function shift_rank(key)
  local rank, priority = unpack(redis.call('HMGET', key, 'rank', 'priority'))
  if rank and math.floor(rank / 35184372088832) ~= 127 - priority then
    redis.call('HSET', key, 'rank', earlier(rank))
    aged[string.match(key, '}:job:(.*)$')] = earlier(rank)
  end
end
local function shift_turns(key)
  for _, turn in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    local head, id = string.match(turn, '^(.*:)%d+:([^:]+)$')
    if aged[id] then
      redis.call('ZREM', key, turn)
      redis.call('ZADD', key, 0, head .. aged[id] .. ':' .. id)
    end
  end
end
local function shift_minutes(key)
  local entries = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  redis.call('DEL', key)
  for i = 1, #entries, 2 do
    local minute, name = string.match(entries[i], '^(%d+) (.*)$')
    local n = entries[i + 1] - minute * 134217728
    local before = math.floor(minute - by / 60000000)
    redis.call('ZADD', key, 'NX', string.format('%.0f', before * 134217728), before .. ' ' .. name)
    redis.call('ZINCRBY', key, n, before .. ' ' .. name)
  end
end
local function shift_fields(key, pattern)
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    redis.call('HSET', key, fields[i], (string.gsub(fields[i + 1], pattern, earlier, 1)))
  end
end
for _, key in ipairs(KEYS) do
  if string.match(key, '}:job:') then
    shift_rank(key)
  end
end
for _, key in ipairs(KEYS) do
  local name = string.match(key, '}:([a-z_]+)') or string.match(key, ':([a-z]+)$')
  if name == 'job' or name == 'schedule' or name == 'rate' then
    shift_hash(key)
  elseif name == 'pending' or name == 'offered' then
    for id, rank in pairs(aged) do
      redis.call('ZADD', key, 'XX', rank, id)
    end
  elseif name == 'turns' then
    shift_turns(key)
  elseif name == 'arrival' then
    redis.call('SET', key, earlier(redis.call('GET', key)))
  elseif BY_TIME[name] then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, string.format('%.0f', -by), member)
    end
  elseif name == 'passed' then
    local members = redis.call('ZRANGE', key, 0, -1)
    redis.call('DEL', key)
    for _, member in ipairs(members) do
      local tick, job_id = string.match(member, '^(%d+) (.*)$')
      redis.call('ZADD', key, earlier(tick), earlier(tick) .. ' ' .. job_id)
    end
  elseif name == 'minutes' or name == 'deaths' then
    shift_minutes(key)
  elseif name == 'attempts' then
    for place, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
      local head, started, finished, rest = string.match(entry, '^(%d+ %d+ )(%d+) (%d+)(.*)$')
      redis.call('LSET', key, place - 1, head .. earlier(started) .. ' ' .. earlier(finished) .. rest)
    end
  elseif name == 'log' then
    for place, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
      local head, at, rest = string.match(entry, '^(%d+ %d+ %d+ )(%d+)(.*)$')
      redis.call('LSET', key, place - 1, head .. earlier(at) .. rest)
    end
  elseif name == 'signatures' or name == 'leaders' or name == 'announced' then
    shift_fields(key, '^%d+')
  elseif name == 'workers' then
    shift_fields(key, '^%d+')
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      local started, heard, rest = string.match(fields[i + 1], '^(%d+) (%d+)(.*)$')
      redis.call('HSET', key, fields[i], started .. ' ' .. earlier(heard) .. rest)
    end
  end
end
return #KEYS
