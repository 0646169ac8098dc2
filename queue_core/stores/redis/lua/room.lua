-- Look whether jobs may come into a queue, as far as its limits go; those that would not be written do not count.
-- KEYS: 1 admitted, 2 depths, 3 unfinished, 4 unique, 5 unique_ends, then the hashes of the jobs
-- ARGV: 1 name of this question, 2..5 the limits of the queue, of high, normal and low priorities (or empty),
--       then for each job id, priority, unique key (or empty)
-- Returns the place of the limit that refuses them among these four, or 0. Leaves in `admitted` "<name>:<number of queues
--   that had room so far>" or "<name>:full" for `insert`, which runs in the same transaction: so nothing comes in between.
-- with: clock
-- with: unique
local function band(priority)
  return priority >= 10 and 2 or priority >= 5 and 3 or 4
end
local coming, waiting, seen, asked = {0, 0, 0, 0}, {0, 0, 0, 0}, {}, {}
for i = 1, #KEYS - 5 do
  local a = 5 + 3 * (i - 1)
  local id, unique = ARGV[a + 1], ARGV[a + 3] ~= '' and ARGV[a + 3]
  local new = not seen[id] and redis.call('EXISTS', KEYS[5 + i]) == 0
  if new and unique then
    new = not asked[unique] and not holder_of(KEYS[4], KEYS[5], KEYS[3], unique)
  end
  if new then
    local place = band(tonumber(ARGV[a + 2]))
    coming[1], coming[place] = coming[1] + 1, coming[place] + 1
    seen[id] = true
    if unique then
      asked[unique] = true
    end
  end
end
local depths = redis.call('HGETALL', KEYS[2])
for i = 1, #depths, 2 do
  local place, n = band(number(string.sub(depths[i], 2))), number(depths[i + 1])
  waiting[1], waiting[place] = waiting[1] + n, waiting[place] + n
end
local full = 0
for place = 4, 1, -1 do
  local most = tonumber(ARGV[1 + place])
  if most and coming[place] > 0 and waiting[place] + coming[place] > most then
    full = place
  end
end
local rooms = string.match(redis.call('GET', KEYS[1]) or '', '^' .. ARGV[1] .. ':(%w+)$')
rooms = (full > 0 or rooms == 'full') and 'full' or (rooms or 0) + 1
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. rooms, 'EX', 10)
return full
