-- Return the payloads of jobs that were just claimed.
SELECT id::text, payload FROM jobs WHERE id = ANY (%(ids)s::uuid[])
