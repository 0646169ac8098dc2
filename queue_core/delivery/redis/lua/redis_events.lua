-- name: expect
-- Note a wait for a job to finish, and forget the waits that are over.
-- KEYS: 1 waiters (ZSET id -> time in ms until which its end is waited for)
-- ARGV: 1 id, 2 milliseconds to wait
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], 'GT', now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[2]))
return 1

-- name: count_listeners
-- Count those who listen to a channel, or to any pattern, and the queues in which the end of a job is waited for.
-- KEYS: waiters of each queue (ZSET id -> time in ms until which its end is waited for)
-- ARGV: 1 channel, 2 whether to count those queues (1, 0)
-- Returns their number; 1 where the server does not allow to ask.
local counts, patterns = redis.pcall('PUBSUB', 'NUMSUB', ARGV[1]), redis.pcall('PUBSUB', 'NUMPAT')
if type(patterns) ~= 'number' or counts.err then
  return 1
end
local waited = ARGV[2] == '1' and redis.call('EXISTS', unpack(KEYS)) or 0
return counts[2] + patterns + waited

-- name: publish
-- Number a message of events, publish it, and notify those who wait for one of the finished jobs.
-- KEYS: 1 event_seq (string), 2 generation (string), 3 waiters (ZSET id -> time in ms until which its end is waited for)
-- ARGV: 1 channel of events, 2 and 3 the text before and after the id in a done channel, 4 queue as JSON, 5 time in
--       seconds, 6 events as JSON (empty: there were no subscribers, and no message is numbered), 7.. ids of finished jobs
-- Returns the number of subscribers that got the message.
local receivers = 0
if ARGV[6] ~= '' then
  local n = redis.call('INCR', KEYS[1])
  local generation = redis.call('GET', KEYS[2]) or ''
  receivers = redis.call('PUBLISH', ARGV[1], '{"v":1,"queue":' .. ARGV[4] .. ',"gen":"' .. generation .. '","n":' .. n ..
    ',"at":' .. ARGV[5] .. ',"events":' .. ARGV[6] .. '}')
end
if #ARGV > 6 and redis.call('EXISTS', KEYS[3]) == 1 then
  for i = 7, #ARGV do
    if redis.call('ZREM', KEYS[3], ARGV[i]) == 1 then
      redis.call('PUBLISH', ARGV[2] .. ARGV[i] .. ARGV[3], '1')
    end
  end
end
return receivers

-- name: leave_out
-- Leave out a number of a queue's messages, and publish one without events behind it, so that subscribers see a gap.
-- KEYS: 1 event_seq (string), 2 generation (string)
-- ARGV: 1 channel of events, 2 queue as JSON, 3 time in seconds
-- Returns the number of subscribers that got the message.
local n = redis.call('INCRBY', KEYS[1], 2)
return redis.call('PUBLISH', ARGV[1], '{"v":1,"queue":' .. ARGV[2] .. ',"gen":"' .. (redis.call('GET', KEYS[2]) or '') .. '","n":' .. n ..
  ',"at":' .. ARGV[3] .. ',"events":[]}')

-- name: announce
-- Offer new jobs of a queue to workers, and publish their events: `offer`, or `offer_and_wake`, and `publish` in one.
-- KEYS: 1 ready set (ZSET id -> rank), 2 event_seq (string), 3 generation (string), 4 sleepers (string, there while workers wait for messages)
-- ARGV: 1 channel of events, 2 queue as JSON, 3 time in seconds, 4 events as JSON (empty: none), 5 channel of wake-ups (empty: workers
--       wait on the ready set), 6 queue, then rank, id, rank, id, ... of the jobs that are ready (at most 1,000 pairs)
-- Returns the number of ids that were not in the ready set, or why they could not be added; events are published then, too.
local new = ARGV[7] and redis.pcall('ZADD', KEYS[1], unpack(ARGV, 7)) or 0
if ARGV[5] ~= '' and new ~= 0 and redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('PUBLISH', ARGV[5], ARGV[6])
end
if ARGV[4] ~= '' then
  local n = redis.call('INCR', KEYS[2])
  redis.call('PUBLISH', ARGV[1], '{"v":1,"queue":' .. ARGV[2] .. ',"gen":"' .. (redis.call('GET', KEYS[3]) or '') .. '","n":' .. n ..
    ',"at":' .. ARGV[3] .. ',"events":' .. ARGV[4] .. '}')
end
return new

-- name: send
-- Publish messages of a queue on channels of their own.
-- KEYS: 1 event_seq (names the queue's slot)
-- ARGV: pairs of a channel and its message
-- Returns the number of subscribers that got one.
local receivers = 0
for i = 1, #ARGV, 2 do
  receivers = receivers + redis.call('PUBLISH', ARGV[i], ARGV[i + 1])
end
return receivers
