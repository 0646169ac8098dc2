-- name: offer
-- Make jobs known as ready. Adding what is there already changes nothing.
-- KEYS: 1 ready set (ZSET id -> rank)
-- ARGV: rank, id, rank, id, ... (at most 1,000 pairs). Ranks stay the strings that came in: as Lua numbers they would
--       come back with 14 of their 16 digits.
-- Returns the number of ids that were not in the ready set. Wakes as many waiting workers.
return redis.call('ZADD', KEYS[1], unpack(ARGV))
