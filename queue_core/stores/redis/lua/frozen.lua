-- Shared: a step of an operation changes what is still as it was frozen, and nothing twice. The last two KEYS are the
--   operation and its marks, a text with a 1 at the place of each member that it has changed. The last of ARGV is empty where
--   no operation asks, else "<members done, as seen> <name of the step>" and for each job " <token>,<place>".
local operation, marks, asking = KEYS[#KEYS - 1], KEYS[#KEYS], ARGV[#ARGV] ~= ''
local seen, step, rest = string.match(ARGV[#ARGV], '^(%d+) (%x+)(.*)$')
local wanted, goes, whole, parts = {}, true, true, nil
if asking then
  local state, done
  state, done, parts = unpack(redis.call('HMGET', operation, 'state', 'done', 'step'))
  goes = state == 'running' and done == seen
  for token, place in string.gmatch(rest, ' (%d+),(%d+)') do
    wanted[#wanted + 1] = {token, place}
  end
end
local function frozen(i, key)
  if not asking then
    return true
  end
  local token, place = unpack(wanted[i])
  if not goes or redis.call('GETRANGE', marks, place, place) == '1' then
    return false
  end
  local status, now_token = unpack(redis.call('HMGET', key, 'status', 'token'))
  whole = whole and status
  return status and (now_token or '0') == token
end
local function mark(i)
  if asking then
    redis.call('SETRANGE', marks, wanted[i][2], '1')
  end
end
-- Note that this part of the step has run. Where a job is not where it was seen, it may have been moved: then it is not done.
local function write_part()
  if asking and goes and whole then
    redis.call('HSET', operation, 'step', step .. ' ' .. (string.match(parts or '', '^' .. step .. ' (%d+)$') or 0) + 1)
  end
end
