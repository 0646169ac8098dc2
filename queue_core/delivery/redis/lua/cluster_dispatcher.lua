-- name: offer_and_wake
-- Make jobs known as ready, as `offer`; where workers wait for messages, announce the queue.
-- KEYS: 1 ready set (ZSET id -> rank), 2 sleepers (string, there while workers wait for messages)
-- ARGV: 1 channel, 2 queue, then rank, id, rank, id, ... (at most 1,000 pairs)
-- Returns the number of ids that were not in the ready set.
local new = redis.call('ZADD', KEYS[1], unpack(ARGV, 3))
if new > 0 and redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('PUBLISH', ARGV[1], ARGV[2])
end
return new
