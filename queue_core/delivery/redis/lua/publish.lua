-- Number a message of events, publish it, and tell those who wait for one of the finished jobs.
-- KEYS: 1 eseq (string), 2 gen (string), 3 waiters (ZSET id -> time in ms until which somebody waits)
-- ARGV: 1 channel of events, 2 prefix of the done channels, 3 queue as JSON, 4 time in seconds, 5 events as JSON,
--       6.. ids of finished jobs
-- Returns the number of subscribers that got the message.
local n = redis.call('INCR', KEYS[1])
local gen = redis.call('GET', KEYS[2]) or ''
local heard = redis.call('PUBLISH', ARGV[1], '{"v":1,"queue":' .. ARGV[3] .. ',"gen":"' .. gen .. '","n":' .. n ..
  ',"at":' .. ARGV[4] .. ',"events":' .. ARGV[5] .. '}')
if #ARGV > 5 and redis.call('EXISTS', KEYS[3]) == 1 then
  for i = 6, #ARGV do
    if redis.call('ZREM', KEYS[3], ARGV[i]) == 1 then
      redis.call('PUBLISH', ARGV[2] .. ARGV[i] .. ':done', '1')
    end
  end
end
return heard
