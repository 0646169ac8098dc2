-- name: page
-- Read the part of a set behind an entry, which may have been removed.
-- KEYS: 1 a ZSET
-- ARGV: 1 "newest" or "oldest" first, 2 score of the entry (or empty: from the start), 3 the entry, 4 number
-- Returns member, score, member, score, ...
local key, newest, score, id = KEYS[1], ARGV[1] == 'newest', ARGV[2], ARGV[3]
local function range(from, to)
  if newest then
    return redis.call('ZRANGE', key, from, to, 'REV', 'WITHSCORES')
  end
  return redis.call('ZRANGE', key, from, to, 'WITHSCORES')
end
local first = 0
if score ~= '' then
  if newest then
    first = redis.call('ZCOUNT', key, '(' .. score, '+inf')
  else
    first = redis.call('ZCOUNT', key, '-inf', '(' .. score)
  end
  -- Jobs of one script have one time; among these the ids are sorted.
  local behind = first + redis.call('ZCOUNT', key, score, score)
  while first < behind do
    local middle = math.floor((first + behind) / 2)
    local other = range(middle, middle)[1]
    if newest and other < id or not newest and other > id then
      behind = middle
    else
      first = middle + 1
    end
  end
end
return range(first, first + ARGV[4] - 1)
