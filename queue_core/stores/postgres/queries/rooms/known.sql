-- Return which of these jobs are unfinished.
SELECT id::text FROM jobs WHERE id = ANY (%(ids)s::uuid[])
