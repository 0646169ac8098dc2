-- Jobs with ordering keys, unique keys and a rank of their own, as the second schema wrote them.
INSERT INTO jobs (number, id, queue_id, type, place, priority, seq, aged, rank, run_at, max_retries, created_at, updated_at,
                  expires_at, finished_at, ordering_key, holds, unique_key, unique_seconds)
VALUES (11, 'through', 1, 'task', 'queued', 5, 11, NULL, 122 << 45 | 11, 1.0, 3, 1.0, 1.0, NULL, NULL, 'a', 1, 'u', NULL),
       (12, 'waits', 1, 'task', 'queued', 5, 12, NULL, NULL, 1.0, 3, 1.0, 1.0, NULL, NULL, 'a', 0, NULL, NULL),
       (13, 'runs', 1, 'task', 'running', 5, 13, NULL, NULL, 1.0, 3, 1.0, 1.0, 9.0, NULL, 'b', 1, NULL, NULL),
       (14, 'again', 1, 'task', 'retrying', 5, 14, NULL, NULL, 1.0, 3, 1.0, 1.0, NULL, NULL, 'c', 1, 'v', 60.0),
       (15, 'blocks', 1, 'task', 'dead', 5, 15, NULL, NULL, 1.0, 3, 1.0, 1.0, NULL, 2.0, 'd', 1, NULL, NULL),
       (16, 'aged', 1, 'task', 'queued', 5, 16, 7, 7, 1.0, 3, 1.0, 1.0, NULL, NULL, NULL, NULL, NULL, NULL)
