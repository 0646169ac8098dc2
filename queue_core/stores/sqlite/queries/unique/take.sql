-- Give a unique key that nobody holds to a job.
INSERT INTO unique_keys (queue_id, unique_key, job, id, until) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (queue_id, unique_key) DO UPDATE SET job = excluded.job, id = excluded.id, until = excluded.until
