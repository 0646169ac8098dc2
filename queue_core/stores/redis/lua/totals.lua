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
-- with: minute
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

-- name: minute
-- Shared: add to a number of this minute.
local function in_minute(key, name, n)
  local minute = math.floor(now / 60000000)
  local member = digits(minute) .. ' ' .. name
  if not redis.call('ZADD', key, 'XX', 'INCR', n, member) then
    redis.call('ZADD', key, digits(minute * 134217728 + n), member)
  end
end

-- name: by_release
-- Shared: deaths by signature and release, and what became of the jobs of each type, gathered and written at the end.
-- `signature_releases`: signature → for each release, after another, "release:n:first:last:latest begin"; times in us.
-- Where a signature was resolved, also "<signature> resolved": that time in us, 1 where only attempts count that began since (else 0),
-- and for each release since, also of earlier times at which it was resolved, "time:release:first death".
-- `type_releases`: type → "release:completed:dead:last completion". At most 50 releases each, and 20,000 fields.
local runs = {}
local function ran(type, release, completed, dead)
  local of = runs[type] or {}
  local sum = of[release or '0'] or {0, 0}
  runs[type], of[release or '0'] = of, sum
  sum[1], sum[2] = sum[1] + completed, sum[2] + dead
end
local function write_entries(key, field, entries)
  if redis.call('HEXISTS', key, field) == 1 or redis.call('HLEN', key) < 20000 then
    redis.call('HSET', key, field, table.concat(entries, ' ', math.max(1, #entries - 49)))
  end
end
local function keep_return(key, field, kept, release, started)
  local at, by_begin = string.match(kept, '^(%d+):(%d)')
  if number(stamp) > number(at) and (number(started) > number(at) or by_begin == '0' and release ~= '0') then
    local entry = ' ' .. at .. ':' .. release .. ':'
    if not string.find(kept, entry, 1, true) then
      redis.call('HSET', key, field, kept .. entry .. stamp)
    end
  end
end
local function died_on(key, signature, release, started)
  local entries, n, first, begun = {}, 0, stamp, started or '0'
  local known, kept = unpack(redis.call('HMGET', key, signature, signature .. ' resolved'))
  if kept then
    keep_return(key, signature .. ' resolved', kept, release or '0', begun)
  end
  for nr, count, since, last, start in string.gmatch(known or '', '(%d+):(%d+):(%d+):(%d+):(%d+)') do
    if nr == (release or '0') then
      n, first, begun = tonumber(count), since, number(start) > number(begun) and start or begun
    else
      entries[#entries + 1] = table.concat({nr, count, since, last, start}, ':')
    end
  end
  entries[#entries + 1] = table.concat({release or '0', digits(n + 1), first, stamp, begun}, ':')
  write_entries(key, signature, entries)
end
local function write_runs(key)
  for type, of in pairs(runs) do
    local entries = {}
    for nr, completed, dead, last in string.gmatch(redis.call('HGET', key, type) or '', '(%d+):(%d+):(%d+):(%d+)') do
      local sum = of[nr]
      if sum then
        of[nr], last = nil, sum[1] > 0 and stamp or last
        completed, dead = digits(completed + sum[1]), digits(dead + sum[2])
      end
      entries[#entries + 1] = table.concat({nr, completed, dead, last}, ':')
    end
    for nr, sum in pairs(of) do
      entries[#entries + 1] = table.concat({nr, sum[1], sum[2], sum[1] > 0 and stamp or '0'}, ':')
    end
    write_entries(key, type, entries)
  end
end
