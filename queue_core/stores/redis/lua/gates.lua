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
