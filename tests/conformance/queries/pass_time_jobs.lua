-- Let time pass without waiting: every job and whatever orders jobs by their arrival was earlier.
-- KEYS: all keys of a store
-- ARGV: 1 microseconds
local by = tonumber(ARGV[1])
local function earlier(text)
  return string.format('%.0f', math.max(0, tonumber(text) - by))
end
local TIMES = {'next', 'last', 'at', 'unique_until', 'created_at', 'updated_at', 'run_at', 'started_at', 'completed_at',
  'lease_expires_at', 'trashed_at', 'finished_at', 'next_at'}
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
local function shift_waiting(key)
  for _, turn in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    local head, id = string.match(turn, '^(.*:)%d+:([^:]+)$')
    if aged[id] then
      redis.call('ZREM', key, turn)
      redis.call('ZADD', key, 0, head .. aged[id] .. ':' .. id)
    end
  end
end
for _, key in ipairs(KEYS) do
  if string.match(key, '}:job:') then
    shift_rank(key)
  end
end
for _, key in ipairs(KEYS) do
  local name = string.match(key, '}:([a-z_]+)') or string.match(key, ':([a-z]+)$')
  if name == 'job' or name == 'schedule' or name == 'rate' or string.match(key, 'operation:%d+$') then
    shift_hash(key)
  elseif name == 'pending' or name == 'offered' then
    for id, rank in pairs(aged) do
      redis.call('ZADD', key, 'XX', rank, id)
    end
  elseif name == 'order_wait' then
    shift_waiting(key)
  elseif name == 'arrival' then
    redis.call('SET', key, earlier(redis.call('GET', key)))
  end
end
return #KEYS
