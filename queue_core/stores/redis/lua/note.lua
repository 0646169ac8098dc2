-- Shared: keep a failed attempt, and the title of its error with the time when it was first seen.
-- An attempt: number, token, started_at, finished_at, the failure as JSON; after the line's end the worker, as it is.
local function note(attempts, number, token, started_at, failure, worker)
  local head = number .. ' ' .. token .. ' ' .. (started_at or '0') .. ' ' .. stamp .. ' '
  redis.call('RPUSH', attempts, head .. failure .. '\n' .. (worker or ''))
  redis.call('LTRIM', attempts, -50, -1)
end
local function sign(signatures, seen, signature, title)
  redis.call('HSETNX', signatures, signature, stamp .. ' ' .. title)
  redis.call('ZADD', seen, stamp, signature)
  if redis.call('ZCARD', seen) > 10000 then
    redis.call('HDEL', signatures, redis.call('ZPOPMIN', seen)[1])
  end
end
