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
