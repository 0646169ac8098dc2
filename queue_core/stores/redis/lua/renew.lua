-- Shared: a new token for a job that an operator changes, so that an operation that had chosen it before passes it over. Made as by
--   `claim`, which goes on behind it.
local run_now
local function renew(key)
  run_now = run_now or tonumber(string.sub(string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'), 1, 7), 16) % 1000
  local last = number(string.sub(redis.call('HGET', key, 'token') or '0', 1, 16))
  redis.call('HSET', key, 'token', digits(math.max(now, last + 1)) .. string.format('%03d', run_now))
end
