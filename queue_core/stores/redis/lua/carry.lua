-- Shared: `transfer` takes whatever belongs to a job from the keys of one queue to those of another one, or of the same.
local SETS = {queued = {1, 2, 5}, scheduled = {3, 5}, retrying = {4, 5}, completed = {6}, dead = {7, 8}}
local function carry_places(id, status)
  for _, set in ipairs(SETS[status]) do
    local score = set > 2 and redis.call('ZSCORE', KEYS[set], id)
    redis.call('ZREM', KEYS[set], id)
    if score then
      redis.call('ZADD', KEYS[18 + set], score, id)
    end
  end
end
-- Its hash, its attempts, its log and the set of its type stand in KEYS behind `k`, here and then there. For a day, what is
--   left here tells those that enqueue it again that it is known, whether or not they have heard of the other queue.
local function carry_records(k, id)
  for part = k + 1, k + 3 do
    if redis.call('EXISTS', KEYS[part]) == 1 then
      redis.call('RENAME', KEYS[part], KEYS[part + 4])
    end
  end
  redis.call('HSET', KEYS[k + 1], 'moved', 1)
  redis.call('EXPIRE', KEYS[k + 1], 86400)
  redis.call('SREM', KEYS[k + 4], id)
  redis.call('SADD', KEYS[k + 8], id)
end
local function carry_cause(id, signature)
  local cause, title = redis.call('HGET', KEYS[9], id), redis.call('HGET', KEYS[17], signature)
  if cause then
    redis.call('HDEL', KEYS[9], id)
    redis.call('HSET', KEYS[27], id, cause)
  end
  if title then
    redis.call('HSETNX', KEYS[35], signature, title)
    redis.call('ZADD', KEYS[36], 'GT', redis.call('ZSCORE', KEYS[18], signature) or stamp, signature)
    if redis.call('ZCARD', KEYS[36]) > 10000 then
      redis.call('HDEL', KEYS[35], redis.call('ZPOPMIN', KEYS[36])[1])
    end
  end
end
-- Let a job that waits arrive, now that the names of `gates` are those of the other queue; returns its rank where it is ready.
local function arrive_there(id, hash, place, type, priority, order, unique, run_at, aging)
  local seq, changed_at = redis.call('INCR', KEYS[38]), redis.call('ZSCORE', KEYS[23], id)
  local rank = rank_of(priority, seq, run_at, aging, KEYS[37])
  redis.call('HSET', hash, 'rank', rank)
  arrived_at(seq, order, hash)
  waits(place, type, priority, 1)
  if unique and not holder_of(KEYS[33], KEYS[34], KEYS[23], unique) then
    take(KEYS[33], KEYS[34], KEYS[23], unique, id, hash)
    redis.call('ZADD', KEYS[23], changed_at, id)
  end
  if place == 'q' and (not order or arrive(order, id, seq, rank, digits(run_at))) then
    redis.call('ZADD', pending, rank, id)
    return rank
  end
end
