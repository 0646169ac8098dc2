-- name: rename
-- Give a key that is there its name of today.
-- KEYS: 1 the key, 2 the same under its name of today
-- Returns 1, or 0 where there is no such key.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('RENAME', KEYS[1], KEYS[2])
return 1

-- name: remove_text
-- Remove a key that holds a text; what is there of another type is another thing, of today's name.
-- KEYS: 1 the key
-- Returns 1, or 0 where there is no such text.
return redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('UNLINK', KEYS[1]) or 0
