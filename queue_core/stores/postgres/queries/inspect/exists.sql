-- Whether a job is known.
SELECT EXISTS (SELECT FROM all_jobs WHERE id = %(id)s::uuid)
