-- name: transit_copy
-- Copy what is in a transit beside another queue to that beside this one, once.
-- KEYS: 1 the mark that this has been done, then the keys of the transit
-- ARGV: 1 seconds for which the mark is kept, then for each key the command that writes it, the number of values, the values
-- Returns 1, or 0 where it has been done.
if not redis.call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then
  return 0
end
local a = 2
for k = 2, #KEYS do
  local n = tonumber(ARGV[a + 1])
  for first = a + 2, a + 1 + n, 4000 do
    redis.call(ARGV[a], KEYS[k], unpack(ARGV, first, math.min(first + 3999, a + 1 + n)))
  end
  a = a + 2 + n
end
return 1

-- name: transit_clear
-- Remove what is left of a transit that jobs have been taken out of.
-- KEYS: its keys
return redis.call('UNLINK', unpack(KEYS))

-- name: transit_seal
-- Give a move up that no job has begun: from now on none does, however late its process comes.
-- KEYS: 1 outgoing, 2 seq of the transit, where `transfer` finds it sealed, then the hashes of its jobs in the transit
-- ARGV: 1 name of the move, 2 seconds for which this is kept
-- Returns 1, or 0 where jobs are on their way.
if redis.call('EXISTS', unpack(KEYS, 3)) > 0 then
  return 0
end
redis.call('SET', KEYS[2], 'sealed', 'EX', ARGV[2])
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
