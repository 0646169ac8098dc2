-- name: schedule_fire
-- Record a tick of a schedule, and insert its job, unless another process was first, or it is paused or removed.
-- KEYS: 1 the schedule's hash, 2 ticks, 3 the ticks of it that have fired, then those of `insert`
-- ARGV: 1 name, 2 the tick in us, 3 the next one in us, 4 the job's id (empty: no job), then those of `insert`
-- Returns what `insert` returns, or nothing where it was not called. A tick passes once, whatever it brings, even if there
--   is no room for its job.
local schedule, ticks, fired = KEYS[1], KEYS[2], KEYS[3]
local name, due, following, job_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local function insert(KEYS, ARGV)
-- with: insert
end
if redis.call('HGET', schedule, 'next') ~= due or redis.call('HEXISTS', schedule, 'paused') == 1 then
  return false
end
local answers, before = false, redis.call('ZCOUNT', fired, due, due) > 0
if job_id ~= '' and not before then
  answers = insert({unpack(KEYS, 4)}, {unpack(ARGV, 5)})
  if answers[1] == 'ask' then
    return answers
  end
  job_id = (answers[1] == 'full' or answers[1] == 'closed') and '' or string.match(answers[2], '^k(.+)') or job_id
end
redis.call('HSET', schedule, 'next', following)
redis.call('ZADD', ticks, following, name)
if before then
  return false
end
redis.call('ZADD', fired, due, due .. ' ' .. job_id)
redis.call('HSET', schedule, 'last', due, 'last_job', job_id)
return answers

-- name: schedule_switch
-- Pause a schedule, or let it tick again.
-- KEYS: 1 the schedule's hash, 2 ticks
-- ARGV: 1 name, 2 the next tick in us (empty: pause it)
-- Returns 1, or 0 where there is nothing to change.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local paused = redis.call('HEXISTS', KEYS[1], 'paused') == 1
if paused == (ARGV[2] == '') then
  return 0
end
if paused then
  redis.call('HDEL', KEYS[1], 'paused')
  redis.call('HSET', KEYS[1], 'next', ARGV[2])
  redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], 'paused', '1')
  redis.call('ZREM', KEYS[2], ARGV[1])
end
return 1

-- name: schedule_take
-- Take a schedule out of its queue, for another one.
-- KEYS: 1 the schedule's hash, 2 ticks, 3 the ticks of it that have fired
-- ARGV: 1 name
-- Returns the fields of the hash, and the members of the last 1,000 ticks, oldest first.
local fields = redis.call('HGETALL', KEYS[1])
local fired = redis.call('ZRANGE', KEYS[3], -1000, -1)
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('ZREM', KEYS[2], ARGV[1])
return {fields, fired}

-- name: schedule_write
-- Write a schedule; its next tick stays as it is, unless cron, tz or type have changed, and it stays paused if it was.
-- KEYS: 1 the schedule's hash, 2 ticks
-- ARGV: 1 name, 2 cron, 3 tz, 4 type, 5 payload, 6 priority, 7 max_retries, 8 ordering key (or empty), 9 next tick in us
-- Returns the next tick.
local old = redis.call('HMGET', KEYS[1], 'cron', 'tz', 'type', 'next')
local same = old[1] == ARGV[2] and old[2] == ARGV[3] and old[3] == ARGV[4]
local tick = same and old[4] or ARGV[9]
redis.call('HSET', KEYS[1], 'cron', ARGV[2], 'tz', ARGV[3], 'type', ARGV[4], 'payload', ARGV[5], 'priority', ARGV[6],
  'max_retries', ARGV[7], 'ordering_key', ARGV[8], 'next', tick)
if redis.call('HEXISTS', KEYS[1], 'paused') == 1 then
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('ZADD', KEYS[2], tick, ARGV[1])
end
return tick
