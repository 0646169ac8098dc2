-- Write a job that rules apply to as queued or scheduled. Apart from insert/jobs, which is a sixth faster.
INSERT INTO jobs (number, id, queue_id, type, place, priority, seq, rank, run_at, max_retries, tags, created_at, updated_at,
                  aged, ordering_key, holds, unique_key, unique_seconds)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?1, ?7, ?8, ?9, ?10, ?11, ?11, ?12, ?13, ?14, ?15, ?16)
