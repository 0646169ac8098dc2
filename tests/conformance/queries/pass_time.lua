-- Let time pass without waiting: every set, list and registry that tells of times was written earlier.
-- KEYS: all keys of a store
-- ARGV: 1 microseconds
local by = tonumber(ARGV[1])
local function earlier(text)
  return string.format('%.0f', math.max(0, tonumber(text) - by))
end
local BY_TIME = {scheduled = true, retrying = true, running = true, unfinished = true, completed = true,
  cancelled = true, dlq = true, trash = true, last_seen = true, ticks = true,
  blocked = true, unique_expires = true, preparing = true, ended = true, hints = true}
local function shift_minutes(key)
  local entries = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  redis.call('DEL', key)
  for i = 1, #entries, 2 do
    local minute, name = string.match(entries[i], '^(%d+) (.*)$')
    local n = entries[i + 1] - minute * 134217728
    local before = math.floor(minute - by / 60000000)
    redis.call('ZADD', key, 'NX', string.format('%.0f', before * 134217728), before .. ' ' .. name)
    redis.call('ZINCRBY', key, n, before .. ' ' .. name)
  end
end
local function shift_fields(key, pattern)
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    redis.call('HSET', key, fields[i], (string.gsub(fields[i + 1], pattern, earlier, 1)))
  end
end
local function shift_last(key, pattern)
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local head, last = string.match(fields[i + 1], pattern)
    if head then
      redis.call('HSET', key, fields[i], head .. earlier(last))
    end
  end
end
for _, key in ipairs(KEYS) do
  local name = string.match(key, '}:([a-z_]+)') or string.match(key, ':([a-z_]+)$') or string.match(key, ':(hints):{')
  if BY_TIME[name] then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, string.format('%.0f', -by), member)
    end
  elseif name == 'fired' then
    local members = redis.call('ZRANGE', key, 0, -1)
    redis.call('DEL', key)
    for _, member in ipairs(members) do
      local tick, job_id = string.match(member, '^(%d+) (.*)$')
      redis.call('ZADD', key, earlier(tick), earlier(tick) .. ' ' .. job_id)
    end
  elseif name == 'minutes' or name == 'deaths' then
    shift_minutes(key)
  elseif name == 'attempts' then
    for place, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
      local head, started, finished, rest = string.match(entry, '^(%d+ %d+ )(%d+) (%d+)(.*)$')
      redis.call('LSET', key, place - 1, head .. earlier(started) .. ' ' .. earlier(finished) .. rest)
    end
  elseif name == 'log' then
    for place, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
      local head, at, rest = string.match(entry, '^(%d+ %d+ %d+ )(%d+)(.*)$')
      redis.call('LSET', key, place - 1, head .. earlier(at) .. rest)
    end
  elseif name == 'signatures' or name == 'leaders' or name == 'announced' then
    shift_fields(key, '^%d+')
  elseif name == 'releases' then
    shift_last(key, '^(%d+ %d+ )(%d+)$')
  elseif name == 'signature_releases' then
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      if string.find(fields[i], ' ', 1, true) then
        redis.call('HSET', key, fields[i], (string.gsub(fields[i + 1], '%d%d%d%d%d%d%d%d+', earlier)))
      else
        redis.call('HSET', key, fields[i], (string.gsub(fields[i + 1], '(%d+:%d+:)(%d+):(%d+):(%d+)', function(head, first, last, begun)
          return head .. earlier(first) .. ':' .. earlier(last) .. ':' .. earlier(begun)
        end)))
      end
    end
  elseif name == 'signature_states' then
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      redis.call('HSET', key, fields[i], (string.gsub(fields[i + 1], '("[au][tn][til]*": )([%d.]+)', function(head, at)
        return head .. string.format('%.6f', at - by / 1000000)
      end)))
    end
  elseif name == 'workers' then
    shift_fields(key, '^%d+')
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      local started, heard, rest = string.match(fields[i + 1], '^(%d+) (%d+)(.*)$')
      redis.call('HSET', key, fields[i], started .. ' ' .. earlier(heard) .. rest)
    end
  end
end
return #KEYS
