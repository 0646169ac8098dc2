-- Lock unfinished jobs: from here on none of them is claimed, settled or taken back before this transaction ends.
SELECT id::text FROM jobs WHERE id = ANY (%(ids)s::uuid[]) ORDER BY jobs.id FOR UPDATE
