-- name: log
-- Append lines to the logs of running jobs whose lease still holds, and forget those beyond the newest of each job.
-- KEYS: for each job its hash and its log
-- ARGV: 1 lines that a job keeps, then for each job its token and the number of its lines, then for each line its count in
--       the attempt, its age in us, the text
-- Returns for each job 1 where its lease holds, else 0. An entry: count in the job, token, count in the attempt, time, text.
-- with: clock
local keep, answers, a = tonumber(ARGV[1]), {}, 2
local function count_of(entry)
  return number(string.match(entry or '', '^(%d+) '))
end
for i = 1, #KEYS / 2 do
  local log, token, lines = KEYS[2 * i], ARGV[a], tonumber(ARGV[a + 1])
  local status, held = unpack(redis.call('HMGET', KEYS[2 * i - 1], 'status', 'token'))
  answers[i] = status == 'running' and held == token and 1 or 0
  if answers[i] == 1 then
    local last = redis.call('LINDEX', log, -1) or ''
    local whose, done = string.match(last, '^%d+ (%d+) (%d+) ')
    local start = count_of(last)
    if whose == token then
      start, done = start - done, tonumber(done)
    else
      done = 0
    end
    -- Of more lines than a job keeps, the first ones would go at once.
    local first = start + ARGV[a + 3 * lines - 1] - keep
    for j = a + 2, a + 3 * lines - 1, 3 do
      local line = tonumber(ARGV[j])
      if line > done and start + line > first then
        local head = digits(start + line) .. ' ' .. token .. ' ' .. ARGV[j] .. ' ' .. digits(now - ARGV[j + 1]) .. ' '
        redis.call('RPUSH', log, head .. ARGV[j + 2])
        done = line
      end
    end
    while redis.call('LLEN', log) > 1 and count_of(redis.call('LINDEX', log, 0)) <= first do
      redis.call('LPOP', log)
    end
  end
  a = a + 2 + 3 * lines
end
return answers
