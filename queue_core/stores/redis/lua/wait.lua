-- Shared: the time from due to start. ARGV 1..18 are the bounds of the histogram in us, 18 stands for beyond the last.
local bounds = {}
for i = 1, 18 do
  bounds[i] = tonumber(ARGV[i])
end
local function count_wait(outcome, type, started_at, run_at)
  local us = math.max(0, number(started_at) - number(run_at))
  local bucket = 0
  while bucket < 18 and us > bounds[bucket + 1] do
    bucket = bucket + 1
  end
  local sum = sum_of(outcome, type)
  sum.wait = sum.wait + us
  sum.waits[bucket] = (sum.waits[bucket] or 0) + 1
end
