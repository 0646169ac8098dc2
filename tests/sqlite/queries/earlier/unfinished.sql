-- A job in each unfinished place, as the first schema wrote it.
INSERT INTO jobs (number, id, queue_id, type, place, priority, seq, rank, run_at, max_retries, created_at, updated_at, expires_at)
VALUES (1, 'scheduled', 1, 'task', 'scheduled', 5, 1, NULL, 1.0, 3, 1.0, 1.0, NULL),
       (2, 'queued', 1, 'task', 'queued', 5, 2, 122 << 45 | 2, 1.0, 3, 1.0, 1.0, NULL),
       (3, 'running', 1, 'task', 'running', 5, 3, NULL, 1.0, 3, 1.0, 1.0, 9.0),
       (4, 'retrying', 1, 'task', 'retrying', 5, 4, NULL, 1.0, 3, 1.0, 1.0, NULL)
