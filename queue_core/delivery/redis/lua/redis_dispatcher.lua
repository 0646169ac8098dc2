-- name: identify
-- Keep an identity where there is none, or another one that it replaces; returns the one that is kept.
local kept = redis.call('GET', KEYS[1])
if kept and kept ~= ARGV[2] then return kept end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]

-- name: look
-- Read the marker of a queue, and find what has been written by other programs into its keys.
-- KEYS: 1 generation (string), 2 ready set (ZSET), 3 event_seq (string, a number), 4 waiters (ZSET)
-- Returns the marker, empty where there is none, and which of the three keys behind it are of another kind (1, 2, 3).
local function kind(key)
  return redis.call('TYPE', key).ok
end
local found = {kind(KEYS[1]) == 'string' and redis.call('GET', KEYS[1]) or ''}
local sets = {true, false, true}
for place, is_set in ipairs(sets) do
  local is = kind(KEYS[place + 1])
  local right = is == (is_set and 'zset' or 'string')
  if right and not is_set then
    right = redis.call('GET', KEYS[place + 1]):match('^%d+$') ~= nil
  end
  if is ~= 'none' and not right then
    found[#found + 1] = place
  end
end
return found

-- name: forget
-- Remove candidates that are no longer ready.
-- KEYS: 1 ready set (ZSET id -> rank)
-- ARGV: ids (at most 1,000)
-- Returns how many were there.
return redis.call('ZREM', KEYS[1], unpack(ARGV))
