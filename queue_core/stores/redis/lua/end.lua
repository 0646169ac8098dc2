-- End the leases of a worker, so that the next reclaim takes its jobs back.
-- KEYS: 1 running, then the hashes of the jobs
-- ARGV: 1 worker, 2 1 where they have not begun (or empty), then the ids
-- Returns how many have ended.
-- with: clock
local ended, til = 0, digits(now - 1)
for i = 1, #KEYS - 1 do
  local key = KEYS[1 + i]
  local status, worker = unpack(redis.call('HMGET', key, 'status', 'worker'))
  if status == 'running' and worker == ARGV[1] then
    redis.call('HSET', key, 'lease_expires_at', til)
    if ARGV[2] == '1' then
      redis.call('HSET', key, 'ahead', 1)
    end
    redis.call('ZADD', KEYS[1], til, ARGV[2 + i])
    ended = ended + 1
  end
end
return ended
