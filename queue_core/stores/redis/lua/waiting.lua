-- Shared: how many jobs of each type wait, and of each priority: "q<priority>" queued, "d<priority>" due later. What there
--   is none of is forgotten.
local waiting, depth = {}, {q = {}, d = {}}
local function stands(place, priority, n)
  depth[place][priority] = (depth[place][priority] or 0) + n
end
local function waits(place, type, priority, n)
  waiting[type] = (waiting[type] or 0) + n
  stands(place, priority, n)
end
local function add(key, field, n)
  if n ~= 0 and redis.call('HINCRBY', key, field, n) <= 0 then
    redis.call('HDEL', key, field)
  end
end
local function write_waiting(types, depths)
  for type, n in pairs(waiting) do
    add(types, type, n)
  end
  for place, numbers in pairs(depth) do
    for priority, n in pairs(numbers) do
      add(depths, place .. priority, n)
    end
  end
end
