-- name: operation
-- Shared: operations end. KEYS: 1 operation, 2 operations:unfinished, 3 operations:ended. ARGV: 1 its number.
local function end_it(state)
  redis.call('HSET', KEYS[1], 'state', state, 'finished_at', stamp)
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZADD', KEYS[3], stamp, ARGV[1])
end
-- A running one is done behind its last member.
local function end_behind_last()
  local state, done, total = unpack(redis.call('HMGET', KEYS[1], 'state', 'done', 'total'))
  if state == 'running' and done == total then
    end_it('done')
  end
end

-- A canary, or a step of a ramp, takes other members in the places of so many that were not changed.
local function move_barrier(unchanged)
  local barrier, total = unpack(redis.call('HMGET', KEYS[1], 'barrier', 'total'))
  redis.call('HSET', KEYS[1], 'barrier', digits(math.min(number(barrier) + unchanged, number(total))))
end

-- name: barriers
-- Shared: the end of the first step of an operation (KEYS[1]) behind a barrier, or its last member of so many. Each end is so many
-- members later as were not changed so far.
local function next_barrier(total, barrier)
  local steps, skipped, errored = redis.call('HMGET', KEYS[1], 'steps', 'canary'), unpack(redis.call('HMGET', KEYS[1], 'skipped', 'errored'))
  local ends = number(skipped) + number(errored)
  for step in string.gmatch(steps[1] or steps[2] or '', '%d+') do
    ends = ends + tonumber(step)
    if ends > barrier and ends < total then
      return ends
    end
  end
  return total
end

-- name: operation_add
-- Append members to a preparing operation; those that it has already are left out.
-- KEYS: 1 operation, 2 its members, 3 their ids, 4 operations:preparing
-- ARGV: 1 its number, then for each member its id, and its token, its place and its queue as they are kept
-- Returns the fields and values of the operation; none where there is no such operation.
-- with: clock
if redis.call('HGET', KEYS[1], 'state') == 'preparing' then
  for i = 2, #ARGV, 2 do
    if redis.call('SADD', KEYS[3], ARGV[i]) == 1 then
      redis.call('RPUSH', KEYS[2], ARGV[i + 1])
    end
  end
  redis.call('HSET', KEYS[1], 'total', redis.call('LLEN', KEYS[2]), 'updated_at', stamp)
  redis.call('ZADD', KEYS[4], stamp, ARGV[1])
end
return redis.call('HGETALL', KEYS[1])

-- name: operation_count
-- Count the next members of a running operation, whose jobs the parts of this step have changed where they were as frozen.
-- KEYS: 1 operation, 2 operations:unfinished, 3 operations:ended, 4 its changed members, then of each member the operations_of its job
-- ARGV: 1 its number, 2 members done, as seen, 3 "<name of the step> <number of its parts>" (or empty: there are none)
-- Returns 1 (counted), 0 (not as seen: another process was first) or -1 (a part did not run, or a job was elsewhere), then the
--   fields and values of the operation; only the number where there is no such operation.
-- with: clock
-- with: operation
local state, done, step, rate, next_at = unpack(redis.call('HMGET', KEYS[1], 'state', 'done', 'step', 'rate', 'next_at'))
local answer, members, changed = 0, #KEYS - 4, 0
if state == 'running' and done == ARGV[2] then
  answer = (ARGV[3] == '' or step == ARGV[3]) and 1 or -1
end
if answer == 1 then
  local marked = redis.call('GETRANGE', KEYS[4], done, done + members - 1)
  for i = 1, members do
    if string.sub(marked, i, i) == '1' then
      changed = changed + 1
      redis.call('ZADD', KEYS[4 + i], ARGV[1], ARGV[1])
      redis.call('ZREMRANGEBYRANK', KEYS[4 + i], 0, -1001)
    end
  end
  redis.call('HDEL', KEYS[1], 'step')
  redis.call('HSET', KEYS[1], 'updated_at', stamp)
  redis.call('HINCRBY', KEYS[1], 'done', members)
  redis.call('HINCRBY', KEYS[1], 'processed', changed)
  redis.call('HINCRBY', KEYS[1], 'skipped', members - changed)
  if rate then
    redis.call('HSET', KEYS[1], 'next_at', digits(math.max(now, number(next_at)) + 1000000 * changed / rate))
  end
  move_barrier(members - changed)
  end_behind_last()
end
return {answer, unpack(redis.call('HGETALL', KEYS[1]))}

-- name: operation_create
-- Write a new operation, preparing and without members.
-- KEYS: 1 operation, 2 operations:unfinished, 3 operations, 4 operations:preparing, then the operations of its signatures
-- ARGV: 1 its number, then its fields and values
-- Returns its fields and values.
-- with: clock
redis.call('HSET', KEYS[1], 'state', 'preparing', 'total', 0, 'done', 0, 'processed', 0, 'skipped', 0, 'errored', 0,
  'barrier', 0, 'created_at', stamp, 'updated_at', stamp, unpack(ARGV, 2))
redis.call('ZADD', KEYS[4], stamp, ARGV[1])
for i = 2, #KEYS do
  if i ~= 4 then
    redis.call('ZADD', KEYS[i], ARGV[1], ARGV[1])
  end
end
return redis.call('HGETALL', KEYS[1])

-- name: operation_fail_member
-- Count the next member of a running operation as errored.
-- KEYS: 1 operation, 2 operations:unfinished, 3 operations:ended
-- ARGV: 1 its number, 2 the note
-- Returns the fields and values of the operation; none where there is no such operation.
-- with: clock
-- with: operation
local state, done, barrier = unpack(redis.call('HMGET', KEYS[1], 'state', 'done', 'barrier'))
if state == 'running' and number(done) < number(barrier) then
  redis.call('HSET', KEYS[1], 'note', ARGV[2], 'updated_at', stamp)
  redis.call('HINCRBY', KEYS[1], 'done', 1)
  redis.call('HINCRBY', KEYS[1], 'errored', 1)
  move_barrier(1)
  end_behind_last()
end
return redis.call('HGETALL', KEYS[1])

-- name: operation_move
-- Move an operation to another state. It has `steps`, the members of its first steps; earlier versions wrote a canary alone.
-- KEYS: 1 operation, 2 operations:unfinished, 3 operations:ended, 4 operations:preparing, 5 ids of its members, 6 its changed members
-- ARGV: 1 its number, 2 the state, 3 1 where this is an end (or empty), 4 the note, 5 us for which nothing has changed it (or
--       empty: whenever), 6 its members, as seen (or empty: however many), 7 the release that it waits for (or empty), then the
--       states that it may come from
-- Returns 1 (moved), 0 (not) or -1 (there is no such operation, or it has other members).
-- with: clock
-- with: barriers
-- with: operation
local before, total, changed_at = unpack(redis.call('HMGET', KEYS[1], 'state', 'total', 'updated_at'))
local after, may = ARGV[2], false
for i = 8, #ARGV do
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
    redis.call('HSET', KEYS[1], 'barrier', ARGV[7] == '' and next_barrier(number(total), 0) or 0, 'started_at', stamp)
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

-- name: operation_note_drain
-- Note how many jobs are left in the queue that an operation drains.
-- KEYS: 1 operation, 2 operations:unfinished, 3 operations:ended, 4 operations:preparing
-- ARGV: 1 its number, 2 the jobs
-- Returns the fields and values of the operation; none where there is no such operation.
-- with: clock
-- with: operation
local state, total, started_at = unpack(redis.call('HMGET', KEYS[1], 'state', 'total', 'started_at'))
if state == 'preparing' or state == 'running' then
  local left = tonumber(ARGV[2])
  total = math.max(number(total), left)
  redis.call('ZREM', KEYS[4], ARGV[1])
  redis.call('HSET', KEYS[1], 'state', 'running', 'total', digits(total), 'barrier', digits(total), 'done', digits(total - left),
    'processed', digits(total - left), 'updated_at', stamp, 'started_at', started_at or stamp)
  end_behind_last()
end
return redis.call('HGETALL', KEYS[1])

-- name: operation_note_outcomes
-- Note what became of the members of an operation.
-- KEYS: 1 operation, 2 operations:uncounted
-- ARGV: 1 its number, 2 the counts (or empty: none), 3 1 where nothing more becomes known of them (or empty)
-- Returns 1, or 0 where that was noted before.
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return 0
end
if ARGV[2] ~= '' and redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], 'outcomes', ARGV[2])
end
if ARGV[3] ~= '' then
  redis.call('ZREM', KEYS[2], ARGV[1])
end
return 1

-- name: operation_pass_barrier
-- Move a running operation from this barrier to its next.
-- KEYS: 1 operation
-- ARGV: 1 the barrier
-- Returns 1, 0 (it does not run, or has another barrier) or -1 (there is no such operation).
-- with: clock
-- with: barriers
local state, barrier, total = unpack(redis.call('HMGET', KEYS[1], 'state', 'barrier', 'total'))
if not state then
  return -1
end
if state ~= 'running' or barrier ~= ARGV[1] or number(barrier) >= number(total) then
  return 0
end
redis.call('HSET', KEYS[1], 'barrier', next_barrier(number(total), number(barrier)), 'updated_at', stamp)
return 1

-- name: step_size
-- Decide how many members the next step of a running operation has: as many for every process that takes it.
-- KEYS: 1 operation
-- ARGV: 1 members done, as seen, 2 members of the step, unless this is decided
-- Returns the number, 0 where the operation is not as seen.
local state, done, sized = unpack(redis.call('HMGET', KEYS[1], 'state', 'done', 'sized'))
if state ~= 'running' or done ~= ARGV[1] then
  return 0
end
local at, size = string.match(sized or '', '^(%d+) (%d+)$')
if at == done then
  return tonumber(size)
end
redis.call('HSET', KEYS[1], 'sized', done .. ' ' .. ARGV[2])
return tonumber(ARGV[2])

-- name: step_mark
-- Mark the changed members of a step whose queues are sealed.
-- KEYS: 1 the changed members of the operation
-- ARGV: 1 members done before it, 2 the marks
return redis.call('SETRANGE', KEYS[1], ARGV[1], ARGV[2])

-- name: step_open
-- Let a step change jobs of a queue, unless it or a later one is over there.
-- KEYS: 1 what is kept of the operation beside the queue, 2 the members that it has changed there
-- ARGV: 1 members done, 2 seconds for which this is kept
-- Returns 1, or 0 where it is over.
local done = redis.call('HGET', KEYS[1], 'done')
if done and tonumber(done) > tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'running', 'done', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('SET', KEYS[2], '')
end
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1

-- name: step_seal
-- Let a step change no more jobs of a queue.
-- KEYS: 1 what is kept of the operation beside the queue, 2 the members that it has changed there
-- ARGV: 1 members done before the step, 2 members of the step
-- Returns the marks of its members.
local done, after = redis.call('HGET', KEYS[1], 'done'), ARGV[1] + ARGV[2]
if done and tonumber(done) < after then
  redis.call('HSET', KEYS[1], 'done', string.format('%d', after))
end
return redis.call('GETRANGE', KEYS[2], ARGV[1], after - 1)
