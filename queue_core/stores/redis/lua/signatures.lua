-- name: set_facts
-- Write what operators have set of a signature, if it is as it was read.
-- KEYS: 1 signature_states
-- ARGV: 1 signature, 2 the operation that changed it last when it was read (or 0), 3 what it is from now on
-- Returns 1, or 0 where another operation has changed it. An entry: the operation that changed it last, the JSON.
if (string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '0', '^%d+') or '0') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1

-- name: note_resolved
-- Note when a signature was resolved: from then on the first death on each release is kept, too. See by_release in totals.lua.
-- KEYS: 1 signature_releases
-- ARGV: 1 signature, 2 when it was resolved in us, 3 1 where only attempts count that began since (else 0)
-- Returns 1.
local field, entries = ARGV[1] .. ' resolved', {}
for entry in string.gmatch(redis.call('HGET', KEYS[1], field) or '', ' (%d+:%d+:%d+)') do
  entries[#entries + 1] = ' ' .. entry
end
if redis.call('HLEN', KEYS[1]) < 20000 then
  redis.call('HSET', KEYS[1], field, ARGV[2] .. ':' .. ARGV[3] .. table.concat(entries, '', math.max(1, #entries - 49)))
end
return 1

-- name: set_filter
-- Write a saved filter, or forget it, if it is as it was read.
-- KEYS: 1 saved_filters
-- ARGV: 1 name, 2 the operation that changed it last when it was read (or 0), 3 what it is from now on; '' forgets it
-- Returns 1, or 0 where another operation has changed it. An entry: the operation that changed it last, the JSON.
if (string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '0', '^%d+') or '0') ~= ARGV[2] then
  return 0
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return 1
