-- name: behind
-- Shared: read a sorted set from behind an entry on, which may have been removed; from its start where the score is ''.
local function range(key, newest, from, to, ...)
  if newest then
    return redis.call('ZRANGE', key, from, to, 'REV', ...)
  end
  return redis.call('ZRANGE', key, from, to, ...)
end
local function behind(key, newest, score, id, length, ...)
  local first = 0
  if score ~= '' then
    if newest then
      first = redis.call('ZCOUNT', key, '(' .. score, '+inf')
    else
      first = redis.call('ZCOUNT', key, '-inf', '(' .. score)
    end
    -- Jobs of one script have one time; among these the ids are sorted.
    local last = first + redis.call('ZCOUNT', key, score, score)
    while first < last do
      local middle = math.floor((first + last) / 2)
      local other = range(key, newest, middle, middle)[1]
      if newest and other < id or not newest and other > id then
        last = middle
      else
        first = middle + 1
      end
    end
  end
  return range(key, newest, first, first + length - 1, ...)
end

-- name: page
-- Read the part of a set behind an entry, which may have been removed.
-- KEYS: 1 a ZSET
-- ARGV: 1 "newest" or "oldest" first, 2 score of the entry (or empty: from the start), 3 the entry, 4 number
-- Returns member, score, member, score, ...
-- with: behind
return behind(KEYS[1], ARGV[1] == 'newest', ARGV[2], ARGV[3], ARGV[4], 'WITHSCORES')

-- name: sift
-- Read the part of the dead behind an entry, and leave out those that died of other errors.
-- KEYS: 1 dlq, 2 errors
-- ARGV: 1 "newest" or "oldest" first, 2 score of the entry (or empty: from the start), 3 the entry, 4 number,
--       then the signatures
-- Returns how many were read, the last of them and its score, then member, score, ... of those that are left.
-- with: behind
local ids = behind(KEYS[1], ARGV[1] == 'newest', ARGV[2], ARGV[3], ARGV[4])
local wanted, verdicts, found = {}, {}, {#ids, '', ''}
for i = 5, #ARGV do
  wanted[ARGV[i]] = true
end
for from = 1, #ids, 1000 do
  local to = math.min(from + 999, #ids)
  for i, cause in ipairs(redis.call('HMGET', KEYS[2], unpack(ids, from, to))) do
    if cause then
      if verdicts[cause] == nil then
        verdicts[cause] = wanted[string.match(cause, '^%S*')] or false
      end
      if verdicts[cause] then
        found[#found + 1] = ids[from + i - 1]
        found[#found + 1] = redis.call('ZSCORE', KEYS[1], ids[from + i - 1])
      end
    end
  end
end
if #ids > 0 then
  found[2], found[3] = ids[#ids], redis.call('ZSCORE', KEYS[1], ids[#ids])
end
return found

-- name: group
-- Count the part of the dead behind an entry by what they died of, newest first.
-- KEYS: 1 dlq, 2 errors
-- ARGV: 1 score of the entry (or empty: from the start), 2 the entry, 3 number
-- Returns how many were read, the last of them and its score, then cause, number, newest member and its score, ...
-- with: behind
local ids = behind(KEYS[1], true, ARGV[1], ARGV[2], ARGV[3])
local counts, causes, newest = {}, {}, {}
for from = 1, #ids, 1000 do
  local to = math.min(from + 999, #ids)
  for i, cause in ipairs(redis.call('HMGET', KEYS[2], unpack(ids, from, to))) do
    if cause then
      if not counts[cause] then
        counts[cause], newest[cause] = 0, ids[from + i - 1]
        causes[#causes + 1] = cause
      end
      counts[cause] = counts[cause] + 1
    end
  end
end
local found = {#ids, ids[#ids] or '', ids[1] and redis.call('ZSCORE', KEYS[1], ids[#ids]) or ''}
for _, cause in ipairs(causes) do
  local n = #found
  found[n + 1], found[n + 2] = cause, counts[cause]
  found[n + 3], found[n + 4] = newest[cause], redis.call('ZSCORE', KEYS[1], newest[cause])
end
return found

-- name: members
-- Read the ids of all jobs of a queue where they are few.
-- KEYS: the ZSETs that its jobs are in
-- ARGV: 1 how many are few
-- Returns the ids; nothing where there are more, or a key holds a foreign value.
local count = 0
for _, key in ipairs(KEYS) do
  local size = redis.pcall('ZCARD', key)
  count = count + (type(size) == 'number' and size or math.huge)
end
if count > tonumber(ARGV[1]) then
  return false
end
local ids = {}
for _, key in ipairs(KEYS) do
  for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    ids[#ids + 1] = id
  end
end
return ids
