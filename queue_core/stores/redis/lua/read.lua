-- Read fields of jobs, of each the same.
-- KEYS: the hashes of the jobs
-- ARGV: the fields; of "<name" only the first 4,096 bytes
-- Returns for each job a list of values, empty where the first field is missing: there is no such job.
local names, cut = {}, {}
for i, name in ipairs(ARGV) do
  local short = string.match(name, '^<(.*)$')
  names[i] = short or name
  if short then
    cut[#cut + 1] = i
  end
end
local answers = {}
for i, key in ipairs(KEYS) do
  local job = redis.pcall('HMGET', key, unpack(names))
  answers[i] = job[1] and job or {}
  for _, place in ipairs(job[1] and cut or {}) do
    job[place] = job[place] and string.sub(job[place], 1, 4096)
  end
end
return answers
