-- Shared: how many jobs may start now; see `allowance` in queue_core/model/rules.py. `rate` keeps the tokens left at a time.
-- `concurrency` and `per_second` are empty where there is no such limit. Returns that number, and the tokens there are now.
local function allowance(most, running, rate, concurrency, per_second, burst)
  if concurrency ~= '' then
    most = math.min(most, math.max(0, concurrency - redis.call('ZCARD', running)))
  end
  if per_second == '' then
    return most
  end
  local tokens, at = unpack(redis.call('HMGET', rate, 'tokens', 'at'))
  local passed = math.max(0, now - number(at)) / 1000000
  tokens = math.min(tonumber(burst), (tonumber(tokens) or math.huge) + passed * per_second)
  -- A token that is there but for rounding is there.
  return math.min(most, math.floor(tokens + 1e-9)), tokens
end
local function spend(rate, tokens, n)
  if tokens then
    redis.call('HSET', rate, 'tokens', string.format('%.17g', tokens - n), 'at', stamp)
  end
end
