-- Read fields of jobs, of each the same.
-- KEYS: the hashes of the jobs
-- ARGV: the fields; of "<name" only the first 4,096 bytes, of "?name" its length where it is longer than that
-- Returns for each job a list of values, empty where the first field is missing: there is no such job.
local names, cut, weighed = {}, {}, {}
for i, name in ipairs(ARGV) do
  local short, size = string.match(name, '^<(.*)$'), string.match(name, '^%?(.*)$')
  names[i] = short or size and '' or name
  if short then
    cut[#cut + 1] = i
  elseif size then
    weighed[#weighed + 1] = {i, size}
  end
end
local answers = {}
for i, key in ipairs(KEYS) do
  local job = redis.pcall('HMGET', key, unpack(names))
  answers[i] = job[1] and job or {}
  for _, place in ipairs(job[1] and cut or {}) do
    job[place] = job[place] and string.sub(job[place], 1, 4096)
  end
  for _, one in ipairs(job[1] and weighed or {}) do
    local length = redis.call('HSTRLEN', key, one[2])
    job[one[1]] = length > 4096 and length or redis.call('HGET', key, one[2])
  end
end
return answers
