-- Shared: how many jobs of each type wait; types without any are forgotten.
local waiting = {}
local function waits(type, n)
  waiting[type] = (waiting[type] or 0) + n
end
local function write_waiting(types)
  for type, n in pairs(waiting) do
    if n ~= 0 and redis.call('HINCRBY', types, type, n) <= 0 then
      redis.call('HDEL', types, type)
    end
  end
end
