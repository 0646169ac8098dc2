-- Shared: the order of a job that arrives now: by priority, then by arrival; with aging (us, or 0), by the time of its
--   arrival or, where that is later, of its being due, put off by so much for each step of priority. Arrivals only grow.
local arrived
local function rank_of(priority, seq, run_at, aging, arrival)
  if aging == 0 then
    return digits((127 - priority) * 35184372088832 + seq)
  end
  local at = run_at
  if run_at <= now then
    arrived = math.max(run_at, (arrived or number(redis.call('GET', arrival))) + 1)
    redis.call('SET', arrival, digits(arrived))
    at = arrived
  end
  return digits(math.max(0, at - 1577836800000000) + (127 - priority) * aging)
end
