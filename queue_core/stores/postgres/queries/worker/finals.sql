-- Return what is known about jobs, wherever they are; a result that is over its retention is gone.
SELECT id::text, status::text,
       CASE WHEN finished_at > now() - make_interval(secs => %(seconds)s) THEN result END, error
  FROM all_jobs
 WHERE id = ANY (%(ids)s::uuid[])
