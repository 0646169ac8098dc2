-- Write a job as queued or scheduled.
INSERT INTO jobs (number, id, queue_id, type, place, priority, seq, rank, run_at, max_retries, tags, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?1, ?7, ?8, ?9, ?10, ?11, ?11)
