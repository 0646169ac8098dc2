-- Shared: enter a job among the dead, under the signature of its error.
-- `deaths` is like `minutes`: "<minute> <signature>" with the score minute * 2^27 + n; 50,000 members at most.
local function die(id, signature, type, dlq, causes, deaths)
  redis.call('ZADD', dlq, stamp, id)
  redis.call('HSET', causes, id, signature .. ' ' .. type)
  if signature ~= '' then
    in_minute(deaths, signature, 1)
  end
  if redis.call('ZCARD', deaths) > 50000 then
    redis.call('ZPOPMIN', deaths)
  end
end
