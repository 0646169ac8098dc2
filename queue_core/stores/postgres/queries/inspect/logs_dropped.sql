-- Whether a job is known, and how many lines of its log are not kept any more.
SELECT EXISTS (SELECT FROM all_jobs WHERE id = %(id)s::uuid),
       (SELECT coalesce(max(number), 0) - count(*) FROM job_logs WHERE job_id = %(id)s::uuid)
