-- Give up all duties that a worker leads.
-- KEYS: 1 leaders
-- ARGV: 1 worker, 2 duty of which others hear that nobody leads it, 3 channel, 4 message
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
