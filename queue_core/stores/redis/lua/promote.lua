-- Move jobs that are due to queued.
-- KEYS: 1 scheduled, 2 retrying, 3 pending, 4 unfinished, then the hashes of the jobs
-- ARGV: the ids
-- Returns for each job its rank, or "" where it is not due or not there.
-- with: clock
local answers = {}
for i, id in ipairs(ARGV) do
  local key = KEYS[4 + i]
  local status, rank, run_at = unpack(redis.call('HMGET', key, 'status', 'rank', 'run_at'))
  local waits = status == 'scheduled' or status == 'retrying'
  answers[i] = ''
  if not waits then
    -- Nothing that this store wrote: an entry without its job would be found due for ever.
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
  elseif number(run_at) <= now then
    redis.call('ZREM', status == 'scheduled' and KEYS[1] or KEYS[2], id)
    redis.call('ZADD', KEYS[3], digits(number(rank)), id)
    redis.call('ZADD', KEYS[4], stamp, id)
    redis.call('HSET', key, 'status', 'queued', 'updated_at', stamp)
    answers[i] = rank
  end
end
return answers
