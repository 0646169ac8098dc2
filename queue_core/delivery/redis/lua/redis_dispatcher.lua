-- name: identify
-- Keep an identity where there is none, or another one that it replaces; returns the one that is kept.
local kept = redis.call('GET', KEYS[1])
if kept and kept ~= ARGV[2] then return kept end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]

-- name: forget
-- Remove candidates that are no longer ready.
-- KEYS: 1 ready set (ZSET id -> rank)
-- ARGV: ids (at most 1,000)
-- Returns how many were there.
return redis.call('ZREM', KEYS[1], unpack(ARGV))
