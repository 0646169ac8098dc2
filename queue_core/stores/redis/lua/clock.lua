-- Shared: the server's time in microseconds, as a number and as text. Numbers of 16 digits become text by `digits`:
--   `..` and tostring would leave 14 of them.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function digits(number)
  return string.format('%.0f', number)
end
local stamp = digits(now)
-- A stored number; 0 where it is missing, or where somebody wrote something else.
local function number(text)
  return tonumber(text) or 0
end
