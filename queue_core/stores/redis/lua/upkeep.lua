-- name: forget
-- Forget unique keys whose time is over.
-- KEYS: 1 unique, 2 unique_expires
-- ARGV: 1 number at most
-- Returns how many these were.
-- with: clock
local over = redis.call('ZRANGE', KEYS[2], '-inf', stamp, 'BYSCORE', 'LIMIT', 0, ARGV[1])
if over[1] then
  redis.call('HDEL', KEYS[1], unpack(over))
  redis.call('ZREM', KEYS[2], unpack(over))
end
return #over

-- name: lead
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

-- name: resign
-- Give up all duties that a worker leads.
-- KEYS: 1 leaders
-- ARGV: 1 worker, 2 duty whose missing leader is announced, 3 channel, 4 message
-- Returns their number.
local duties, given = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #duties, 2 do
  if string.match(duties[i + 1], '^%d+ (.*)$') == ARGV[1] then
    given = given + redis.call('HDEL', KEYS[1], duties[i])
    if duties[i] == ARGV[2] then
      redis.pcall('PUBLISH', ARGV[3], ARGV[4])
    end
  end
end
return given
