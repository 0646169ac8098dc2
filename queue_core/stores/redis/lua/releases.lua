-- name: register_release
-- Write a release at a place, those from there on moving up by one, and forget others.
-- KEYS: 1 releases
-- ARGV: 1 name, 2 how many there were when the place was found, 3 the place, then the names of those to forget
-- Returns its number; 0: there are others by now, and nothing was written. An entry: number, place, first seen.
-- with: clock
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known then
  return tonumber(string.match(known, '^%d+'))
end
-- One field is the last number.
if math.max(0, redis.call('HLEN', KEYS[1]) - 1) ~= tonumber(ARGV[2]) then
  return 0
end
for i = 4, #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[i])
end
local place, entries = tonumber(ARGV[3]), redis.call('HGETALL', KEYS[1])
for i = 1, #entries, 2 do
  local nr, at, seen = string.match(entries[i + 1], '^(%d+) (%d+) (%d+)$')
  if nr and tonumber(at) >= place then
    redis.call('HSET', KEYS[1], entries[i], nr .. ' ' .. digits(at + 1) .. ' ' .. seen)
  end
end
local last = redis.call('HINCRBY', KEYS[1], '', 1)
redis.call('HSET', KEYS[1], ARGV[1], last .. ' ' .. digits(place) .. ' ' .. stamp)
return last
