-- Count the next member of a running operation as errored.
-- KEYS: 1 operation, 2 operations:unfinished, 3 operations:ended
-- ARGV: 1 its number, 2 the note
-- Returns the fields and values of the operation; none where there is no such operation.
-- with: clock
-- with: operation
local state, done, barrier = unpack(redis.call('HMGET', KEYS[1], 'state', 'done', 'barrier'))
if state == 'running' and number(done) < number(barrier) then
  redis.call('HSET', KEYS[1], 'note', ARGV[2], 'updated_at', stamp)
  redis.call('HINCRBY', KEYS[1], 'done', 1)
  redis.call('HINCRBY', KEYS[1], 'errored', 1)
  end_behind_last()
end
return redis.call('HGETALL', KEYS[1])
