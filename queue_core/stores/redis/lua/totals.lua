-- Shared: totals are gathered while a script runs and written at its end, each different number once.
-- Fields of `tallies`: <outcome>:<what>:<type>; what is n, wait and run (us), w<bucket> and r<bucket>.
-- A member of `minutes` is "<minute> <outcome>", its score minute * 2^27 + n, so that a range of scores is one of time.
local sums = {}
local series = {enqueued = 0, completed = 0, retried = 0, dead = 0}
local function add(outcome, what, type, n)
  local field = outcome .. ':' .. what .. ':' .. type
  sums[field] = (sums[field] or 0) + n
end
local function count(outcome, type)
  add(outcome, 'n', type, 1)
  if series[outcome] then
    series[outcome] = series[outcome] + 1
  end
end
local function count_run(outcome, type, us, bucket)
  add(outcome, 'run', type, us)
  add(outcome, 'r' .. bucket, type, 1)
end
local function in_minute(key, name, n)
  local minute = math.floor(now / 60000000)
  local member = digits(minute) .. ' ' .. name
  redis.call('ZADD', key, 'NX', digits(minute * 134217728), member)
  redis.call('ZINCRBY', key, n, member)
end
local function write_totals(tallies, minutes)
  for field, n in pairs(sums) do
    redis.call('HINCRBY', tallies, field, digits(n))
  end
  for outcome, n in pairs(series) do
    if n > 0 then
      in_minute(minutes, outcome, n)
    end
  end
end
