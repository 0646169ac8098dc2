-- Shared: who may end an attempt. The field `ended` keeps the last eight endings as "<token><letter> ".
local LETTERS = {completed = 'c', cancelled = 'x', retrying = 'r', released = 'l', dead = 'd'}
-- Returns 1: the lease holds; 2: this very outcome was written before; 0: the lease is over.
local function fence(status, held, ended, token, kind)
  if status == 'running' and held == token then
    return 1
  end
  return ended and string.find(ended, token .. LETTERS[kind], 1, true) and 2 or 0
end
local function ending(ended, token, kind)
  return string.sub((ended or '') .. token .. LETTERS[kind] .. ' ', -168)
end
