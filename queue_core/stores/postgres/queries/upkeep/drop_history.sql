-- Drop whole days of the history that are over their retention.
SELECT drop_job_history(now() - make_interval(secs => %(seconds)s))
