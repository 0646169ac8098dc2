-- Move jobs that are due to queued.
-- KEYS: 1 scheduled, 2 retrying, 3 pending, 4 unfinished, 5 depths, 6 gates, 7 turns, 8 blocked, then the hashes
--       of the jobs
-- ARGV: 1 jobs of an ordering key at a time, then the ids
-- Returns for each job its rank, or "" where it is not due, not there, or waits for its ordering key.
local gates, turns, blocked, pending, most = KEYS[6], KEYS[7], KEYS[8], KEYS[3], tonumber(ARGV[1])
-- with: clock
-- with: waiting
-- with: gates
local answers, keyed = {}, {}
local function ready(i, id, rank)
  redis.call('ZADD', pending, rank, id)
  answers[i] = rank
end
for i = 1, #KEYS - 8 do
  local key, id = KEYS[8 + i], ARGV[1 + i]
  local status, rank, run_at, priority, order, seq = unpack(redis.call('HMGET', key, 'status', 'rank', 'run_at', 'priority',
    'ordering_key', 'seq'))
  answers[i], rank = '', digits(number(rank))
  if status ~= 'scheduled' and status ~= 'retrying' then
    -- Nothing that this store wrote: an entry without its job would be found due for ever.
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
  elseif number(run_at) <= now then
    redis.call('ZREM', status == 'scheduled' and KEYS[1] or KEYS[2], id)
    redis.call('ZADD', KEYS[4], stamp, id)
    redis.call('HSET', key, 'status', 'queued', 'updated_at', stamp)
    stands('d', number(priority), -1)
    stands('q', number(priority), 1)
    if order then
      keyed[#keyed + 1] = {number(seq), i, id, order, rank, digits(number(run_at))}
    else
      ready(i, id, rank)
    end
  end
end
-- A key lets those of them through that arrived first, whichever was due first.
table.sort(keyed, function(one, other)
  return one[1] < other[1]
end)
for _, job in ipairs(keyed) do
  local seq, i, id, order, rank, run_at = unpack(job)
  if arrive(order, id, seq, rank, run_at) then
    ready(i, id, rank)
  end
end
write_waiting(nil, KEYS[5])
return answers
