-- Take or renew the leadership of a duty.
-- KEYS: 1 leaders
-- ARGV: 1 duty, 2 worker, 3 us, 4 channel on which the others hear of it (or empty), 5 message
-- Returns 1, or 0 while another worker holds it. An entry: us until which it is held, the worker.
-- with: clock
local til, leader = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (.*)$')
if leader and leader ~= ARGV[2] and number(til) >= now then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], digits(now + ARGV[3]) .. ' ' .. ARGV[2])
if ARGV[4] ~= '' then
  redis.pcall('PUBLISH', ARGV[4], ARGV[5])
end
return 1
