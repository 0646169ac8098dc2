-- name: cancel
-- Move waiting jobs to cancelled; request the workers of running ones to stop them.
-- KEYS: 1 pending, 2 offered, 3 scheduled, 4 retrying, 5 unfinished, 6 cancelled, 7 cancelling, 8 types, 9 tallies,
--       10 minutes, 11 depths, 12 admitted, 13 order_wait, 14 blocked, then the hashes of the jobs; the last two: see
--       `frozen`
-- ARGV: 1 jobs of an ordering key at a time, then the ids; the last: see `frozen`
-- Returns for each job 1 where this changed it, else 0; where it unblocked others, a list: that, then id and rank of each.
local admitted, order_wait, blocked, pending, most = KEYS[12], KEYS[13], KEYS[14], KEYS[1], tonumber(ARGV[1])
-- with: clock
-- with: totals
-- with: waiting
-- with: ordering
-- with: frozen
local answers = {}
for i = 1, #KEYS - 16 do
  local key, id = KEYS[14 + i], ARGV[1 + i]
  local status, type, worker, requested, priority, order, seq, rank = unpack(redis.call('HMGET', key, 'status', 'type', 'worker',
    'cancel_requested', 'priority', 'ordering_key', 'seq', 'rank'))
  status = frozen(i, key) and status
  answers[i] = 0
  if status == 'running' and not requested then
    redis.call('HSET', key, 'cancel_requested', 1)
    redis.call('HSET', KEYS[7], id, worker)
    mark_changed(i)
    answers[i] = 1
  elseif status == 'queued' or status == 'scheduled' or status == 'retrying' then
    for set = 1, 5 do
      redis.call('ZREM', KEYS[set], id)
    end
    redis.call('HSET', key, 'status', 'cancelled', 'updated_at', stamp, 'completed_at', stamp)
    redis.call('ZADD', KEYS[6], stamp, id)
    count('cancelled', type)
    add_waiting(status == 'queued' and 'q' or 'd', type, number(priority), -1)
    mark_changed(i)
    answers[i] = 1
    if order then
      stop_waiting(order, id, seq, rank)
      answers[i] = with_unblocked(1, release_key(order, id))
    end
  end
end
write_part()
write_totals(KEYS[9], KEYS[10])
write_waiting(KEYS[8], KEYS[11])
return answers

-- name: transfer_parts
-- Shared: `transfer` takes whatever belongs to a job from the keys of one queue to those of another one, or of the same.
-- Others may have given the move up before it began, see `transit_seal`.
local sealed = redis.call('GET', KEYS[38]) == 'sealed'
goes = goes and not sealed
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
-- Its hash, its attempts, its log and the set of its type are in KEYS behind `k`, here and then there. For a day, what is
--   left here shows to those that enqueue it again that it is known, whether or not they know of the other queue.
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
local function carry_error(id, signature)
  local entry, title = redis.call('HGET', KEYS[9], id), redis.call('HGET', KEYS[17], signature)
  if entry then
    redis.call('HDEL', KEYS[9], id)
    redis.call('HSET', KEYS[27], id, entry)
  end
  if title then
    redis.call('HSETNX', KEYS[35], signature, title)
    redis.call('ZADD', KEYS[36], 'GT', redis.call('ZSCORE', KEYS[18], signature) or stamp, signature)
    if redis.call('ZCARD', KEYS[36]) > 10000 then
      redis.call('HDEL', KEYS[35], redis.call('ZPOPMIN', KEYS[36])[1])
    end
  end
end
-- Let a job that waits arrive, now that the names of `admitted` are those of the other queue; returns its rank where it is ready.
local function arrive_there(id, hash, place, type, priority, order, unique, run_at, aging)
  local seq, changed_at = redis.call('INCR', KEYS[38]), redis.call('ZSCORE', KEYS[23], id)
  local rank = rank_of(priority, seq, run_at, aging, KEYS[37])
  redis.call('HSET', hash, 'rank', rank)
  arrived_at(seq, order, hash)
  add_waiting(place, type, priority, 1)
  if unique and not holder_of(KEYS[33], KEYS[34], KEYS[23], unique) then
    take(KEYS[33], KEYS[34], KEYS[23], unique, id, hash)
    redis.call('ZADD', KEYS[23], changed_at, id)
  end
  if place == 'q' and (not order or admit(order, id, seq, rank, digits(run_at))) then
    redis.call('ZADD', pending, rank, id)
    return rank
  end
end

-- name: delete
-- Move dead jobs to the trash.
-- KEYS: 1 dlq, 2 trash, 3 admitted, 4 order_wait, 5 blocked, 6 pending, then the hashes of the jobs; the last two: see `frozen`
-- ARGV: 1 jobs of an ordering key at a time, then the ids; the last: see `frozen`
-- Returns for each job 1 where this changed it, else 0; where it unblocked others, a list: that, then id and rank of each.
local admitted, order_wait, blocked, pending, most = KEYS[3], KEYS[4], KEYS[5], KEYS[6], tonumber(ARGV[1])
-- with: clock
-- with: ordering
-- with: frozen
-- with: epoch
-- with: renew
local answers = {}
for i = 1, #KEYS - 8 do
  local key, id = KEYS[6 + i], ARGV[1 + i]
  answers[i] = frozen(i, key) and redis.call('ZREM', KEYS[1], id) or 0
  if answers[i] == 1 then
    mark_changed(i)
    redis.call('ZADD', KEYS[2], stamp, id)
    redis.call('HSET', key, 'trashed_at', stamp, 'updated_at', stamp)
    renew(key)
    local order = redis.call('HGET', key, 'ordering_key')
    answers[i] = with_unblocked(1, order and release_key(order, id))
  end
end
write_part()
return answers

-- name: frozen
-- Shared: a step of an operation changes what is still as it was frozen, and nothing twice. The last two KEYS are the
--   operation and its changed members, a text with a 1 at the place of each member that it has changed. The last of ARGV is empty
--   without an operation, else "<members done, as seen> <name of the step>" and for each job " <token>,<place>".
local operation, changed_members, of_operation = KEYS[#KEYS - 1], KEYS[#KEYS], ARGV[#ARGV] ~= ''
local seen, step, rest = string.match(ARGV[#ARGV], '^(%d+) (%x+)(.*)$')
local wanted, goes, whole, parts = {}, true, true, nil
if of_operation then
  local state, done
  state, done, parts = unpack(redis.call('HMGET', operation, 'state', 'done', 'step'))
  goes = state == 'running' and done == seen
  for token, place in string.gmatch(rest, ' (%d+),(%d+)') do
    wanted[#wanted + 1] = {token, place}
  end
end
local function frozen(i, key)
  if not of_operation then
    return true
  end
  local token, place = unpack(wanted[i])
  if not goes or redis.call('GETRANGE', changed_members, place, place) == '1' then
    return false
  end
  local status, now_token = unpack(redis.call('HMGET', key, 'status', 'token'))
  whole = whole and status
  return status and (now_token or '0') == token
end
local function mark_changed(i)
  if of_operation then
    redis.call('SETRANGE', changed_members, wanted[i][2], '1')
  end
end
-- Store that this part of the step has run. Where a job is not where it was seen, it may have been moved: then it is not done.
local function write_part()
  if of_operation and goes and whole then
    redis.call('HSET', operation, 'step', step .. ' ' .. (string.match(parts or '', '^' .. step .. ' (%d+)$') or 0) + 1)
  end
end

-- name: command
-- Leave an order for a worker, which its next heartbeat takes; it is notified that there is one.
-- KEYS: 1 workers
-- ARGV: 1 worker, 2 order, 3 channel, 4 message
-- Returns 1, or 0 where there is no such worker.
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if not entry then
  return 0
end
local times, rest = string.match(entry, '^(%d+ %d+) %S+ (.*)$')
redis.call('HSET', KEYS[1], ARGV[1], times .. ' ' .. ARGV[2] .. ' ' .. rest)
redis.pcall('PUBLISH', ARGV[3], ARGV[4])
return 1

-- name: remove
-- Remove finished jobs for good; the totals go on counting them.
-- KEYS: 1 the set they are in (completed, cancelled, dlq or trash), 2 errors, 3 tallies, 4 minutes,
--       5 admitted, 6 order_wait, 7 blocked, 8 pending, 9 unique, 10 unique_expires,
--       then for each job its hash, its attempts, its log and the set of its type; the last two: see `frozen`
-- ARGV: 1 outcome to count, 2 us since they came into the set (or empty: whenever), 3 jobs of an ordering key at a time,
--       then for each job id, type, ordering key, unique key (or empty); the last: see `frozen`
-- Returns for each job 1 where this removed it, else 0; where it unblocked others, a list: that, then id and rank of each.
local admitted, order_wait, blocked, pending, most = KEYS[5], KEYS[6], KEYS[7], KEYS[8], tonumber(ARGV[3])
-- with: clock
-- with: totals
-- with: ordering
-- with: frozen
local before = tonumber(ARGV[2]) and now - ARGV[2] or math.huge
local answers = {}
for i = 1, (#KEYS - 12) / 4 do
  local k, id, type, order, unique = 6 + 4 * i, unpack(ARGV, 4 * i, 4 * i + 3)
  local since = tonumber(redis.call('ZSCORE', KEYS[1], id))
  answers[i] = frozen(i, KEYS[k + 1]) and since and since < before and 1 or 0
  if answers[i] == 1 then
    mark_changed(i)
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
    redis.call('UNLINK', KEYS[k + 1], KEYS[k + 2], KEYS[k + 3])
    redis.call('SREM', KEYS[k + 4], id)
    count(ARGV[1], type)
    if unique ~= '' and redis.call('HGET', KEYS[9], unique) == id and not redis.call('ZSCORE', KEYS[10], unique) then
      redis.call('HDEL', KEYS[9], unique)
    end
    answers[i] = with_unblocked(1, order ~= '' and release_key(order, id))
  end
end
write_part()
write_totals(KEYS[3], KEYS[4])
return answers

-- name: renew
-- Shared: a new token for a job that an operator changes, so that an operation that had chosen it before skips it. Made as by
--   `claim`, which goes on behind it.
local epoch_now
local function renew(key)
  epoch_now = epoch_now or epoch_of(key .. stamp)
  local last = number(string.sub(redis.call('HGET', key, 'token') or '0', 1, 16))
  redis.call('HSET', key, 'token', digits(math.max(now, last + 1)) .. epoch_now)
end

-- name: restore
-- Move jobs from the trash back into the DLQ, at the time of their death.
-- KEYS: 1 dlq, 2 trash, then the hashes of the jobs; the last two: see `frozen`
-- ARGV: the ids; the last: see `frozen`
-- Returns for each job 1 where this changed it, else 0.
-- with: clock
-- with: frozen
-- with: epoch
-- with: renew
local answers = {}
for i = 1, #KEYS - 4 do
  local key, id = KEYS[2 + i], ARGV[i]
  answers[i] = frozen(i, key) and redis.call('ZREM', KEYS[2], id) or 0
  if answers[i] == 1 then
    mark_changed(i)
    local died = digits(number(redis.call('HGET', key, 'completed_at')))
    redis.call('ZADD', KEYS[1], died, id)
    redis.call('HSET', key, 'updated_at', died)
    redis.call('HDEL', key, 'trashed_at')
    renew(key)
  end
end
write_part()
return answers

-- name: retry
-- Move dead and completed jobs to queued, or to scheduled where a delay is given, behind all that arrived before them.
-- KEYS: 1 pending, 2 scheduled, 3 unfinished, 4 completed, 5 dlq, 6 trash, 7 errors, 8 seq, 9 types, 10 tallies,
--       11 minutes, 12 depths, 13 admitted, 14 order_wait, 15 blocked, 16 unique, 17 unique_expires, 18 arrival, then the
--       hashes of the jobs; the last two: see `frozen`
-- ARGV: 1 aging in us (or 0), 2 jobs of an ordering key at a time, then for each job id, delay in us (0: ready at once);
--       the last: see `frozen`
-- Returns for each job "r<rank>" (queued), "d" (scheduled), "w" (waits for its ordering key) or "" (not changed).
local admitted, order_wait, blocked, pending, most = KEYS[13], KEYS[14], KEYS[15], KEYS[1], tonumber(ARGV[2])
-- with: clock
-- with: totals
-- with: waiting
-- with: rank
-- with: ordering
-- with: unique
-- with: frozen
-- with: epoch
-- with: renew
local answers = {}
for i = 1, #KEYS - 20 do
  local key, id, delay = KEYS[18 + i], ARGV[1 + 2 * i], tonumber(ARGV[2 + 2 * i])
  local status, type, priority, order, unique, til = unpack(redis.call('HMGET', key, 'status', 'type', 'priority',
    'ordering_key', 'unique_key', 'unique_until'))
  answers[i] = ''
  if frozen(i, key) and (status == 'dead' or status == 'completed') then
    mark_changed(i)
    renew(key)
    local seq = redis.call('INCR', KEYS[8])
    local rank = rank_of(number(priority), seq, now + delay, tonumber(ARGV[1]), KEYS[18])
    for set = 4, 6 do
      redis.call('ZREM', KEYS[set], id)
    end
    redis.call('HDEL', KEYS[7], id)
    redis.call('HDEL', key, 'losses', 'completed_at', 'trashed_at', 'result', 'started_at', 'worker', 'release', 'progress', 'progress_message')
    redis.call('HSET', key, 'status', delay > 0 and 'scheduled' or 'queued', 'updated_at', stamp, 'retry_count', 0,
      'run_at', digits(now + delay), 'rank', rank)
    if unique and not til and not holder_of(KEYS[16], KEYS[17], KEYS[3], unique) then
      take(KEYS[16], KEYS[17], KEYS[3], unique, id, key)
    end
    arrived_at(seq, order, key)
    redis.call('ZADD', KEYS[3], stamp, id)
    if delay > 0 then
      redis.call('ZADD', KEYS[2], digits(now + delay), id)
      answers[i] = 'd'
    elseif order and not admit(order, id, seq, rank, stamp) then
      answers[i] = 'w'
    else
      redis.call('ZADD', KEYS[1], rank, id)
      answers[i] = 'r' .. rank
    end
    count('retried_by_operator', type)
    add_waiting(delay > 0 and 'd' or 'q', type, number(priority), 1)
  end
end
write_part()
write_totals(KEYS[10], KEYS[11])
write_waiting(KEYS[9], KEYS[12])
return answers

-- name: transfer
-- Give jobs to another queue or priority; their states and times stay, and waiting ones queue at its end.
-- KEYS: 1 pending, 2 offered, 3 scheduled, 4 retrying, 5 unfinished, 6 completed, 7 dlq, 8 trash, 9 errors, 10 types,
--       11 depths, 12 admitted, 13 order_wait, 14 blocked, 15 unique, 16 unique_expires, 17 signatures, 18 last_seen, where they are;
--       19..36 the same, where they go to, and there 37 arrival, 38 seq; 39 queues, then for each job its hash, its attempts,
--       its log and the set of its type, here and there; the last two: see `frozen`
-- ARGV: 1 "move" (waiting and dead jobs) or "retry" (dead and completed ones, which are retried next), 2 jobs of an ordering
--       key at a time here, 3 there, 4 aging there in us (or 0), 5 priority (or empty: their own), 6 name of the queue there,
--       then for each job id, ordering key there (or empty); the last: see `frozen`
-- Returns for each job "r<rank>" (ready there), "m" (given there otherwise) or "" (not changed); where it unblocked others
--   here, a list: that, then id and rank of each.
local admitted, order_wait, blocked, pending, most = KEYS[12], KEYS[13], KEYS[14], KEYS[1], tonumber(ARGV[2])
-- with: clock
-- with: waiting
-- with: rank
-- with: ordering
-- with: unique
-- with: frozen
-- with: epoch
-- with: renew
-- with: transfer_parts
local moves, answers, coming, named = ARGV[1] == 'move', {}, {}, nil
local PLACES = sealed and {} or moves and {scheduled = 'd', queued = 'q', retrying = 'd', dead = '-'} or {dead = '-', completed = '-'}
for i = 1, (#KEYS - 41) / 8 do
  local k, id, order_there = 31 + 8 * i, ARGV[5 + 2 * i], ARGV[6 + 2 * i]
  local key, there = KEYS[k + 1], KEYS[k + 5]
  local status, type, priority, order, seq, rank, unique, til, run_at, trashed, signature = unpack(redis.call('HMGET', key,
    'status', 'type', 'priority', 'ordering_key', 'seq', 'rank', 'unique_key', 'unique_until', 'run_at', 'trashed_at',
    'signature'))
  local place, wanted = PLACES[status], ARGV[5] ~= '' and ARGV[5] or priority
  answers[i] = ''
  if frozen(i, key) and place and not (moves and trashed) and (key ~= there or wanted ~= priority) then
    local holds_unique = unique and not til
    if holds_unique and redis.call('HGET', KEYS[15], unique) == id and not redis.call('ZSCORE', KEYS[16], unique) then
      redis.call('HDEL', KEYS[15], unique)
    end
    carry_places(id, status)
    if order then
      stop_waiting(order, id, seq, rank)
    end
    answers[i] = with_unblocked('m', order and release_key(order, id))
    if key ~= there then
      carry_records(k, id)
      named = named or redis.call('SADD', KEYS[39], ARGV[6])
      if status == 'dead' then
        carry_error(id, signature or '')
      end
    end
    redis.call('HSET', there, 'priority', wanted)
    if order_there ~= (order or '') then
      redis.call('HDEL', there, 'ordering_key', 'seq')
    end
    if order_there ~= '' then
      redis.call('HSET', there, 'ordering_key', order_there)
    end
    if place ~= '-' then
      add_waiting(place, type, number(priority), -1)
      local order_now = order_there ~= '' and order_there
      coming[#coming + 1] = {i, id, there, place, type, number(wanted), order_now, holds_unique and unique, number(run_at)}
    end
    if moves then
      mark_changed(i)
      renew(there)
    end
  end
end
write_part()
write_waiting(KEYS[10], KEYS[11])
waiting, depth = {}, {q = {}, d = {}}
admitted, order_wait, blocked, pending, most = KEYS[30], KEYS[31], KEYS[32], KEYS[19], tonumber(ARGV[3])
for _, job in ipairs(coming) do
  local rank, answer = arrive_there(job[2], job[3], job[4], job[5], job[6], job[7], job[8], job[9], tonumber(ARGV[4])), job[1]
  if rank and answers[answer] ~= 'm' then
    answers[answer][1] = 'r' .. rank
  elseif rank then
    answers[answer] = 'r' .. rank
  end
end
write_waiting(KEYS[28], KEYS[29])
return answers
