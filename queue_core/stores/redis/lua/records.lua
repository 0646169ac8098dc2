-- name: clock
-- Shared: the server's time in microseconds, as a number and as text. Numbers of 16 digits become text by `digits`:
--   `..` and tostring would leave 14 of them.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function digits(number)
  return string.format('%.0f', number)
end
local stamp = digits(now)
-- A stored number; 0 where it is missing, or is not a number.
local function number(text)
  return tonumber(text) or 0
end

-- name: epoch
-- Shared: the last three digits of a token: of the server's run, or where its user may not run INFO, of another text. With
--   the name of one claim two servers differ as well; with any other text they agree on what both make in one microsecond.
local function epoch_of(text)
  local found = redis.pcall('INFO', 'server')
  local run = type(found) == 'string' and string.match(found, 'run_id:(%x+)') or redis.sha1hex(text)
  return string.format('%03d', tonumber(string.sub(run, 1, 7), 16) % 1000)
end

-- name: failure
-- Shared: keep a failed attempt, and the title of its error with the time when it was first seen; count losses and crashes.
-- The failure is in ARGV behind `a`: the failure as JSON, its line, its kind, its signature, its title.
-- An attempt: number, token, started_at, finished_at, the failure as JSON; the worker and its release follow
--   in lines of their own.
local function fail(key, attempts, signatures, seen, nth, token, started_at, worker, release, a)
  local head = nth .. ' ' .. token .. ' ' .. (started_at or '0') .. ' ' .. stamp .. ' '
  local failure, line, kind, signature, title = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5]
  redis.call('RPUSH', attempts, head .. failure .. '\n' .. (worker or '') .. '\n' .. (release or '0'))
  redis.call('LTRIM', attempts, -50, -1)
  redis.call('HSETNX', signatures, signature, stamp .. ' ' .. title)
  redis.call('ZADD', seen, stamp, signature)
  if redis.call('ZCARD', seen) > 10000 then
    redis.call('HDEL', signatures, redis.call('ZPOPMIN', seen)[1])
  end
  redis.call('HSET', key, 'error', line, 'failure_kind', kind, 'signature', signature)
  local counted = kind == 'lost' and 'losses' or kind == 'poison' and 'crashes'
  if counted then
    redis.call('HSET', key, counted, number(redis.call('HGET', key, counted)) + 1)
  end
end
