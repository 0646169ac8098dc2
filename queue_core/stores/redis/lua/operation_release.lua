-- Let a running operation go on behind its canary.
-- KEYS: 1 operation
-- Returns 1, 0 (it does not run, or has no barrier) or -1 (there is no such operation).
-- with: clock
local state, barrier, total = unpack(redis.call('HMGET', KEYS[1], 'state', 'barrier', 'total'))
if not state then
  return -1
end
if state ~= 'running' or number(barrier) >= number(total) then
  return 0
end
redis.call('HSET', KEYS[1], 'barrier', total, 'updated_at', stamp)
return 1
