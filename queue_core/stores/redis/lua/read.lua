-- Read fields of jobs, of each the same.
-- KEYS: the hashes of the jobs
-- ARGV: the fields; "#name" is the length of a field
-- Returns for each job a list of values, empty where the first field is missing: there is no such job.
local names, lengths = {}, {}
for i, name in ipairs(ARGV) do
  if string.sub(name, 1, 1) == '#' then
    lengths[#lengths + 1] = string.sub(name, 2)
  else
    names[#names + 1] = name
  end
end
local answers = {}
for i, key in ipairs(KEYS) do
  local job = redis.pcall('HMGET', key, unpack(names))
  answers[i] = job[1] and job or {}
  for place, name in ipairs(job[1] and lengths or {}) do
    job[#names + place] = redis.call('HSTRLEN', key, name)
  end
end
return answers
