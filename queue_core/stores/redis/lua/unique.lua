-- Shared: who holds a unique key: a job while it is unfinished, or, with an entry in `ends`, whatever became of it, until
--   that time.
local function holder_of(unique, ends, unfinished, key)
  local id = redis.call('HGET', unique, key)
  local til = id and redis.call('ZSCORE', ends, key)
  if til then
    return tonumber(til) > now and id
  end
  return id and redis.call('ZSCORE', unfinished, id) and id
end
-- Give a key that nobody holds to a job, for so many us (or nothing: while it is unfinished, which it is from now on).
local function take(unique, ends, unfinished, key, id, hash, us)
  redis.call('HSET', unique, key, id)
  redis.call('HSET', hash, 'unique_key', key)
  redis.call('ZADD', unfinished, stamp, id)
  if us then
    redis.call('ZADD', ends, digits(now + us), key)
    redis.call('HSET', hash, 'unique_until', digits(now + us))
  else
    redis.call('ZREM', ends, key)
  end
end
