-- name: deaths
-- Shared: enter a job among the dead, under the signature of its error.
-- `deaths` is like `minutes`: "<minute> <signature>" with the score minute * 2^27 + n; 50,000 members at most.
local function die(id, signature, type, dlq, errors, deaths)
  redis.call('ZADD', dlq, stamp, id)
  redis.call('HSET', errors, id, signature .. ' ' .. type)
  if signature ~= '' then
    in_minute(deaths, signature, 1)
  end
  if redis.call('ZCARD', deaths) > 50000 then
    redis.call('ZPOPMIN', deaths)
  end
end

-- name: totals
-- Shared: totals are gathered while a script runs and written at its end, each different number once.
-- Fields of `tallies`: <outcome>:<what>:<type>; what is n, wait and run (us), w<bucket> and r<bucket>.
-- A member of `minutes` is "<minute> <outcome>", its score minute * 2^27 + n, so that a range of scores is one of time.
local sums = {}
local series = {enqueued = 0, completed = 0, retried = 0, dead = 0}
local function sum_of(outcome, type)
  local types = sums[outcome] or {}
  local sum = types[type] or {n = 0, wait = 0, run = 0, waits = {}, runs = {}}
  sums[outcome], types[type] = types, sum
  return sum
end
local function count(outcome, type)
  local sum = sum_of(outcome, type)
  sum.n = sum.n + 1
  if series[outcome] then
    series[outcome] = series[outcome] + 1
  end
end
local function count_run(outcome, type, us, bucket)
  local sum = sum_of(outcome, type)
  sum.run = sum.run + us
  sum.runs[bucket] = (sum.runs[bucket] or 0) + 1
end
local function in_minute(key, name, n)
  local minute = math.floor(now / 60000000)
  local member = digits(minute) .. ' ' .. name
  redis.call('ZADD', key, 'NX', digits(minute * 134217728), member)
  redis.call('ZINCRBY', key, n, member)
end
local function write_totals(tallies, minutes)
  for outcome, types in pairs(sums) do
    for type, sum in pairs(types) do
      local numbers = {n = sum.n, wait = sum.wait, run = sum.run}
      for bucket, n in pairs(sum.waits) do
        numbers['w' .. bucket] = n
      end
      for bucket, n in pairs(sum.runs) do
        numbers['r' .. bucket] = n
      end
      for what, n in pairs(numbers) do
        if n > 0 then
          redis.call('HINCRBY', tallies, outcome .. ':' .. what .. ':' .. type, digits(n))
        end
      end
    end
  end
  for outcome, n in pairs(series) do
    if n > 0 then
      in_minute(minutes, outcome, n)
    end
  end
end
