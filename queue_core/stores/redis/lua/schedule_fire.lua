-- Let a tick of a schedule pass, and insert its job, unless somebody else was sooner, or it is paused or gone.
-- KEYS: 1 the schedule's hash, 2 ticks, 3 the ticks of it that have passed, then those of `insert`
-- ARGV: 1 name, 2 the tick in us, 3 the next one in us, 4 the job's id (empty: no job), then those of `insert`
-- Returns what `insert` returns, or nothing where it was not called. A tick passes once, whatever it brings, even if there
--   is no room for its job.
local schedule, ticks, passed = KEYS[1], KEYS[2], KEYS[3]
local name, due, following, job_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local function insert(KEYS, ARGV)
-- with: insert
end
if redis.call('HGET', schedule, 'next') ~= due or redis.call('HEXISTS', schedule, 'paused') == 1 then
  return false
end
local answers, before = false, redis.call('ZCOUNT', passed, due, due) > 0
if job_id ~= '' and not before then
  answers = insert({unpack(KEYS, 4)}, {unpack(ARGV, 5)})
  if answers[1] == 'ask' then
    return answers
  end
  job_id = answers[1] == 'full' and '' or string.match(answers[2], '^k(.+)') or job_id
end
redis.call('HSET', schedule, 'next', following)
redis.call('ZADD', ticks, following, name)
if before then
  return false
end
redis.call('ZADD', passed, due, due .. ' ' .. job_id)
redis.call('HSET', schedule, 'last', due, 'last_job', job_id)
return answers
