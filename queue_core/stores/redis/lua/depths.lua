-- Count the queued jobs by priority, jumping from one priority that occurs to the next.
-- KEYS: 1 pending
-- ARGV: 1..256 the first rank of each priority, from 127 downwards
-- Returns priority, number, priority, number, ...
local answers, from = {}, '-inf'
while true do
  local first = redis.call('ZRANGE', KEYS[1], from, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  if not first[2] then
    return answers
  end
  -- A rank has its priority above 45 bits; what is no rank of ours counts as the lowest.
  local place = math.max(0, math.min(255, math.floor(tonumber(first[2]) / 35184372088832)))
  local behind = place < 255 and '(' .. ARGV[place + 2] or '+inf'
  answers[#answers + 1] = 127 - place
  answers[#answers + 1] = redis.call('ZCOUNT', KEYS[1], from, behind)
  if place == 255 then
    return answers
  end
  from = ARGV[place + 2]
end
