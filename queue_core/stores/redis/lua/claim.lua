-- name: ahead
-- Return which jobs come next: those of best rank, and those that wait for ordering keys, in order.
-- KEYS: 1 pending, 2 order_wait
-- ARGV: 1 jobs of best rank, 2 jobs of each key, then the ordering keys
-- Returns a list of ids for the ranks, and one for each key.
local answers = {ARGV[1] == '0' and {} or redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1)}
for i = 3, #ARGV do
  local prefix, ids = #ARGV[i] .. ':' .. ARGV[i] .. ':', {}
  for place, member in ipairs(redis.call('ZRANGE', KEYS[2], '[' .. prefix, '(' .. prefix .. '\255', 'BYLEX', 'LIMIT', 0, ARGV[2])) do
    ids[place] = string.match(member, '^%d+:(.*)$', #prefix + 18)
  end
  answers[i - 1] = ids
end
return answers

-- name: beat
-- Renew a worker's entry and take the order that was left for it.
-- KEYS: 1 workers
-- ARGV: 1 worker, 2 its own entry, as JSON
-- Returns the order, or "". An entry: started_at, heartbeat_at, the order or "-", the JSON.
-- with: clock
local entry = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local started_at, order = string.match(entry, '^(%d+) %d+ (%S+) ')
redis.call('HSET', KEYS[1], ARGV[1], (started_at or stamp) .. ' ' .. stamp .. ' - ' .. ARGV[2])
return order and order ~= '-' and order or ''

-- name: claim
-- Move jobs that are still queued to running, best rank first, each under a new lease token.
-- KEYS: 1 paused, 2 pending, 3 offered, 4 running, 5 unfinished, 6 token, 7 types, 8 depths, 9 blocked, 10 rate, then the
--       hashes of the jobs
-- ARGV: 1 worker, 2 lease in us, 3 limit, 4 name of this claim, 5 how many of them start at once,
--       6..9 of a queue with limits: jobs running at a time, starts a second, starts that may be saved up (or empty), seconds that
--       jobs of a rate may wait, 10 the worker's release, 11 number of types, '*' for every type, then these types, then the ids
-- Returns for each claimed job a list: position among the ids, token, type, payload, priority, rank, retry_count,
--   max_retries, crashes, created_at, tags, ordering_key, losses, headers. Asked again under the same name, it gives the same jobs once more.
-- A token: microseconds (16 digits), which grow from claim to claim whatever the clock does, and the server's run (3
-- digits): what a failover lost is not given out a second time.
-- with: clock
-- with: epoch
-- with: waiting
-- with: allowance
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {}
end
local worker, lease, limit, name, begin = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local release, every = ARGV[10], ARGV[11] == '*'
local first = 11 + (every and 0 or tonumber(ARGV[11]))
local wanted = {}
for i = 12, first do
  wanted[ARGV[i]] = true
end
local found, answers, gone, seen, before, sorted, size = {}, {}, {}, {}, 0, true, 0
for i = 1, #KEYS - 10 do
  local key, id = KEYS[10 + i], ARGV[first + i]
  local job = redis.pcall('HMGET', key, 'status', 'type', 'payload', 'priority', 'rank', 'retry_count', 'max_retries',
    'crashes', 'created_at', 'tags', 'ordering_key', 'losses', 'headers', 'token', 'claim')
  if job.err and not string.find(job.err, '^WRONGTYPE') then redis.call('HMGET', key, 'status') end -- raises it
  if not job[1] then
    gone[#gone + 1] = id
  elseif not seen[id] and (every or wanted[job[2]]) then
    seen[id] = true
    if job[1] == 'queued' and not (job[11] and redis.call('ZSCORE', KEYS[9], id)) then
      local rank = number(job[5])
      found[#found + 1] = {i, key, id, job, rank}
      before, sorted, size = rank, sorted and before < rank, size + #(job[3] or '')
    elseif job[1] == 'running' and job[15] == name then
      answers[#answers + 1] = {i, job[14], unpack(job, 2, 13)}
    end
  end
  if size >= 8388608 then break end -- 8 MB of payloads (queue_core.runtime.MAX_STATEMENT_LENGTH), of ids in the order of their ranks
end
if not sorted then
  table.sort(found, function(one, other)
    return one[5] < other[5]
  end)
end
local most, starting, tokens, ahead = allowance(limit - #answers, begin, KEYS[4], KEYS[10], ARGV[6], ARGV[7], ARGV[8], ARGV[9])
local epoch = epoch_of(name)
local last = math.max(now, number(redis.call('GET', KEYS[6])) + 1) - 1
local expiry = digits(now + lease)
local ids, leases, changed = {}, {}, {}
local fields = {'status', 'running', 'updated_at', stamp, 'started_at', stamp, 'lease_expires_at', expiry, 'worker', worker, 'claim', name,
  'release', release, 'token', ''}
for place = 1, math.min(most, #found) do
  local i, key, id, job = unpack(found[place])
  last = math.max(last, number(string.sub(job[14] or '0', 1, 16))) + 1
  local token = digits(last) .. epoch
  fields[16] = token
  if place > starting then fields[17], fields[18] = 'ahead', 1 end
  redis.call('HSET', key, unpack(fields))
  ids[place], leases[2 * place - 1], leases[2 * place] = id, expiry, id
  changed[2 * place - 1], changed[2 * place] = stamp, id
  add_waiting('q', job[2], number(job[4]), -1)
  answers[#answers + 1] = {i, token, unpack(job, 2, 13)}
end
if #ids > 0 then
  redis.call('ZREM', KEYS[2], unpack(ids))
  redis.call('ZREM', KEYS[3], unpack(ids))
  redis.call('ZADD', KEYS[4], unpack(leases))
  redis.call('ZADD', KEYS[5], unpack(changed))
  redis.call('SET', KEYS[6], digits(last))
  write_waiting(KEYS[7], KEYS[8])
  spend(KEYS[10], #ids, starting, tokens, ahead)
end
if #gone > 0 then redis.call('ZREM', KEYS[2], unpack(gone)) end
return answers

-- name: extend
-- Prolong the leases that still hold and record their progress.
-- KEYS: 1 running, then the hashes of the jobs
-- ARGV: 1 lease in us from now, then for each job id, token, progress (or empty), message, 1 if it has started
-- Returns for each job 1 where its lease holds, else 0.
-- with: clock
local expiry = digits(now + ARGV[1])
local answers = {}
for i = 1, #KEYS - 1 do
  local key, a = KEYS[1 + i], 1 + 5 * (i - 1)
  local status, token, progress = unpack(redis.call('HMGET', key, 'status', 'token', 'progress'))
  answers[i] = status == 'running' and token == ARGV[a + 2] and 1 or 0
  if answers[i] == 1 then
    redis.call('HSET', key, 'lease_expires_at', expiry)
    redis.call('ZADD', KEYS[1], expiry, ARGV[a + 1])
    if ARGV[a + 5] == '1' then
      redis.call('HDEL', key, 'ahead')
    end
    local reported = tonumber(ARGV[a + 3])
    if reported then
      reported = math.max(number(progress), math.min(reported, 100))
      redis.call('HSET', key, 'progress', reported, 'progress_message', ARGV[a + 4])
    end
  end
end
return answers

-- name: read
-- Read fields of jobs, of each the same.
-- KEYS: the hashes of the jobs
-- ARGV: the fields; of "<name" only the first 4,096 bytes, of "<<name" 16,384, of "?name" its length where it is longer than that
-- Returns for each job a list of values, empty where the first field is missing: there is no such job.
local names, cut, weighed = {}, {}, {}
for i, name in ipairs(ARGV) do
  local most, short = string.match(name, '^(<+)(.*)$')
  local size = string.match(name, '^%?(.*)$')
  names[i] = short or size and '' or name
  if short then
    cut[#cut + 1] = {i, most == '<<' and 16384 or 4096}
  elseif size then
    weighed[#weighed + 1] = {i, size}
  end
end
local answers = {}
for i, key in ipairs(KEYS) do
  local job = redis.pcall('HMGET', key, unpack(names))
  if job.err and not string.find(job.err, '^WRONGTYPE') then redis.call('HMGET', key, 'status') end -- raises it
  answers[i] = job[1] and job or {}
  for _, one in ipairs(job[1] and cut or {}) do
    job[one[1]] = job[one[1]] and string.sub(job[one[1]], 1, one[2])
  end
  for _, one in ipairs(job[1] and weighed or {}) do
    local length = redis.call('HSTRLEN', key, one[2])
    job[one[1]] = length > 4096 and length or redis.call('HGET', key, one[2])
  end
end
return answers
