-- Write jobs as queued or scheduled; those whose ids are known here stay as they are.
-- KEYS: 1 pending, 2 scheduled, 3 unfinished, 4 seq, 5 types, 6 tallies, 7 minutes,
--       then for each job its hash and the set of its type
-- ARGV: for each job id, type, payload, priority, max_retries, tags (JSON or empty), delay in us, run_at in us (or empty)
-- Returns the order of arrival before these jobs (0: the queue is new), then for each job "k" (known before), "r<rank>"
--   (ready) or "d<us>" (due then).
-- with: clock
-- with: totals
-- with: waiting
local jobs = (#KEYS - 7) / 2
local sequence = redis.call('INCRBY', KEYS[4], jobs) - jobs
local ready, due, changed, of_type, answers = {}, {}, {}, {}, {sequence}
for i = 1, jobs do
  local key, a = KEYS[6 + 2 * i], 8 * (i - 1)
  local id, type, priority = ARGV[a + 1], ARGV[a + 2], ARGV[a + 4]
  if redis.call('EXISTS', key) == 1 then
    answers[1 + i] = 'k'
  else
    local run_at = math.max(now, tonumber(ARGV[a + 8]) or now + ARGV[a + 7])
    local rank = digits((127 - priority) * 35184372088832 + sequence + i)
    local status, due_at = 'queued', stamp
    if run_at > now then
      status, due_at = 'scheduled', digits(run_at)
    end
    redis.call('HSET', key, 'type', type, 'payload', ARGV[a + 3], 'status', status, 'priority', priority, 'max_retries',
      ARGV[a + 5], 'rank', rank, 'created_at', stamp, 'updated_at', stamp, 'run_at', due_at)
    if ARGV[a + 6] ~= '' then
      redis.call('HSET', key, 'tags', ARGV[a + 6])
    end
    local type_key = KEYS[7 + 2 * i]
    of_type[type_key] = of_type[type_key] or {}
    table.insert(of_type[type_key], id)
    local set, score = ready, rank
    if status == 'scheduled' then
      set, score = due, due_at
    end
    set[#set + 1] = score
    set[#set + 1] = id
    changed[#changed + 1] = stamp
    changed[#changed + 1] = id
    count('enqueued', type)
    waits(type, 1)
    answers[1 + i] = status == 'queued' and 'r' .. rank or 'd' .. due_at
  end
end
for key, set in pairs({[KEYS[1]] = ready, [KEYS[2]] = due, [KEYS[3]] = changed}) do
  if #set > 0 then
    redis.call('ZADD', key, unpack(set))
  end
end
for key, ids in pairs(of_type) do
  redis.call('SADD', key, unpack(ids))
end
write_totals(KEYS[6], KEYS[7])
write_waiting(KEYS[5])
return answers
