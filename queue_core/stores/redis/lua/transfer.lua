-- Give jobs to another queue or priority; their states and times stay, and those that wait arrive anew.
-- KEYS: 1 pending, 2 offered, 3 scheduled, 4 retrying, 5 unfinished, 6 completed, 7 dlq, 8 trash, 9 causes, 10 types,
--       11 depths, 12 gates, 13 turns, 14 blocked, 15 unique, 16 unique_ends, 17 signatures, 18 seen, where they are;
--       19..36 the same, where they go to, and there 37 arrival, 38 seq; 39 queues, then for each job its hash, its attempts,
--       its log and the set of its type, here and there; the last two: see `frozen`
-- ARGV: 1 "move" (waiting and dead jobs) or "retry" (dead and completed ones, which are retried next), 2 jobs of an ordering
--       key at a time here, 3 there, 4 aging there in us (or 0), 5 priority (or empty: their own), 6 name of the queue there,
--       then for each job id, ordering key there (or empty); the last: see `frozen`
-- Returns for each job "r<rank>" (ready there), "m" (given there otherwise) or "" (not changed); where it let others through
--   here, a list: that, then id and rank of each.
local gates, turns, blocked, pending, most = KEYS[12], KEYS[13], KEYS[14], KEYS[1], tonumber(ARGV[2])
-- with: clock
-- with: waiting
-- with: rank
-- with: gates
-- with: unique
-- with: frozen
-- with: renew
-- with: carry
local moves, answers, coming, named = ARGV[1] == 'move', {}, {}, nil
local PLACES = moves and {scheduled = 'd', queued = 'q', retrying = 'd', dead = '-'} or {dead = '-', completed = '-'}
for i = 1, (#KEYS - 41) / 8 do
  local k, id, order_there = 31 + 8 * i, ARGV[5 + 2 * i], ARGV[6 + 2 * i]
  local key, there = KEYS[k + 1], KEYS[k + 5]
  local status, type, priority, order, seq, rank, unique, til, run_at, trashed, signature = unpack(redis.call('HMGET', key,
    'status', 'type', 'priority', 'ordering_key', 'seq', 'rank', 'unique_key', 'unique_until', 'run_at', 'trashed_at',
    'signature'))
  local place, wanted = PLACES[status], ARGV[5] ~= '' and ARGV[5] or priority
  answers[i] = ''
  if frozen(i, key) and place and not (moves and trashed) and (key ~= there or wanted ~= priority) then
    local holds = unique and not til
    if holds and redis.call('HGET', KEYS[15], unique) == id and not redis.call('ZSCORE', KEYS[16], unique) then
      redis.call('HDEL', KEYS[15], unique)
    end
    carry_places(id, status)
    if order then
      leave(order, id, seq, rank)
    end
    answers[i] = told('m', order and let_go(order, id))
    if key ~= there then
      carry_records(k, id)
      named = named or redis.call('SADD', KEYS[39], ARGV[6])
      if status == 'dead' then
        carry_cause(id, signature or '')
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
      waits(place, type, number(priority), -1)
      local order_now = order_there ~= '' and order_there
      coming[#coming + 1] = {i, id, there, place, type, number(wanted), order_now, holds and unique, number(run_at)}
    end
    if moves then
      mark(i)
      renew(there)
    end
  end
end
write_part()
write_waiting(KEYS[10], KEYS[11])
waiting, depth = {}, {q = {}, d = {}}
gates, turns, blocked, pending, most = KEYS[30], KEYS[31], KEYS[32], KEYS[19], tonumber(ARGV[3])
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
