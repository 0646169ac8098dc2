-- Shared: the server's time in microseconds, and numbers of 16 digits as text; `..` and tostring would leave 14 of them.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function digits(number)
  return string.format('%.0f', number)
end
local function millis(us)
  return math.ceil(us / 1000)
end
