-- Move an operation to another state.
-- KEYS: 1 operation, 2 operations:unfinished, 3 operations:ended, 4 operations:preparing, 5 ids of its members, 6 its marks
-- ARGV: 1 its number, 2 the state, 3 1 where this is an end (or empty), 4 the note, 5 us for which nothing has changed it (or
--       empty: whenever), 6 its members, as seen (or empty: however many), then the states that it may come from
-- Returns 1 (moved), 0 (not) or -1 (there is no such operation, or it has other members).
-- with: clock
-- with: operation
local before, total, canary, changed_at = unpack(redis.call('HMGET', KEYS[1], 'state', 'total', 'canary', 'updated_at'))
local after, may = ARGV[2], false
for i = 7, #ARGV do
  may = may or ARGV[i] == before
end
if not before or may and ARGV[6] ~= '' and ARGV[6] ~= total then
  return -1
end
if not may or ARGV[5] ~= '' and now - number(changed_at) < tonumber(ARGV[5]) then
  return 0
end
redis.call('HSET', KEYS[1], 'state', after, 'note', ARGV[4], 'updated_at', stamp)
if before == 'preparing' then
  redis.call('ZREM', KEYS[4], ARGV[1])
  redis.call('UNLINK', KEYS[5])
  if after == 'running' then
    local first = number(canary) > 0 and math.min(number(canary), number(total)) or number(total)
    redis.call('HSET', KEYS[1], 'barrier', first, 'started_at', stamp)
  elseif after == 'done' then
    redis.call('HSET', KEYS[1], 'done', total, 'processed', total, 'barrier', total, 'started_at', stamp)
    redis.call('SET', KEYS[6], string.rep('1', number(total)))
  end
elseif before == 'stopped' and after == 'running' then
  redis.call('HDEL', KEYS[1], 'stop_percent')
  redis.call('HSET', KEYS[1], 'barrier', total)
end
if ARGV[3] ~= '' then
  end_it(after)
end
end_behind_last()
return 1
