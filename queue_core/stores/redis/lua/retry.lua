-- Move dead and completed jobs to queued, or to scheduled where a delay is given, behind all that arrived before them.
-- KEYS: 1 pending, 2 scheduled, 3 unfinished, 4 completed, 5 dlq, 6 trash, 7 causes, 8 seq, 9 types, 10 tallies,
--       11 minutes, 12 depths, 13 gates, 14 turns, 15 blocked, 16 unique, 17 unique_ends, 18 arrival, then the
--       hashes of the jobs; the last two: see `frozen`
-- ARGV: 1 aging in us (or 0), 2 jobs of an ordering key at a time, then for each job id, delay in us (0: ready at once);
--       the last: see `frozen`
-- Returns for each job "r<rank>" (queued), "d" (scheduled), "w" (waits for its ordering key) or "" (not changed).
local gates, turns, blocked, pending, most = KEYS[13], KEYS[14], KEYS[15], KEYS[1], tonumber(ARGV[2])
-- with: clock
-- with: totals
-- with: waiting
-- with: rank
-- with: gates
-- with: unique
-- with: frozen
-- with: renew
local answers = {}
for i = 1, #KEYS - 20 do
  local key, id, delay = KEYS[18 + i], ARGV[1 + 2 * i], tonumber(ARGV[2 + 2 * i])
  local status, type, priority, order, unique, til = unpack(redis.call('HMGET', key, 'status', 'type', 'priority',
    'ordering_key', 'unique_key', 'unique_until'))
  answers[i] = ''
  if frozen(i, key) and (status == 'dead' or status == 'completed') then
    mark(i)
    renew(key)
    local seq = redis.call('INCR', KEYS[8])
    local rank = rank_of(number(priority), seq, now + delay, tonumber(ARGV[1]), KEYS[18])
    for set = 4, 6 do
      redis.call('ZREM', KEYS[set], id)
    end
    redis.call('HDEL', KEYS[7], id)
    redis.call('HDEL', key, 'losses', 'completed_at', 'trashed_at', 'result', 'started_at', 'worker', 'progress', 'progress_message')
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
    elseif order and not arrive(order, id, seq, rank, stamp) then
      answers[i] = 'w'
    else
      redis.call('ZADD', KEYS[1], rank, id)
      answers[i] = 'r' .. rank
    end
    count('retried_by_operator', type)
    waits(delay > 0 and 'd' or 'q', type, number(priority), 1)
  end
end
write_part()
write_totals(KEYS[10], KEYS[11])
write_waiting(KEYS[9], KEYS[12])
return answers
