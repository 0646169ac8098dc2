-- Shared: the time from due to start. ARGV 1..18 are the bounds of the histogram in us, 18 stands for beyond the last.
local function count_wait(outcome, type, started_at, run_at)
  local us = math.max(0, number(started_at) - number(run_at))
  local bucket = 18
  for i = 1, 18 do
    if us <= tonumber(ARGV[i]) then
      bucket = i - 1
      break
    end
  end
  add(outcome, 'wait', type, us)
  add(outcome, 'w' .. bucket, type, 1)
end
