-- A long history of one queue: most jobs completed, some cancelled, dead and in the trash.
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :n)
INSERT INTO jobs (number, id, queue_id, type, place, priority, seq, run_at, max_retries, created_at, updated_at, token, worker,
                  started_at, finished_at, trashed_at, progress, error, signature, kind)
SELECT 1000 + i, printf('0197%04d-0000-7000-8000-%012d', i % 10000, i), 1, 'task',
       CASE WHEN i % 100 = 0 THEN 'dead' WHEN i % 333 = 1 THEN 'trashed' WHEN i % 50 = 3 THEN 'cancelled' ELSE 'completed' END,
       5, 1000 + i, 1000.0 + i, 3, 1000.0 + i, 2000.0 + i, i, 'worker', 1500.0 + i, 2000.0 + i,
       CASE WHEN i % 100 <> 0 AND i % 333 = 1 THEN 2000.0 + i END, 0,
       CASE WHEN i % 100 = 0 OR i % 333 = 1 THEN 'OSError: no such file' END,
       CASE WHEN i % 100 = 0 OR i % 333 = 1 THEN printf('%012x', i % 7) END,
       CASE WHEN i % 100 = 0 OR i % 333 = 1 THEN 'error' END
  FROM n;
INSERT INTO payloads (number, payload) SELECT number, '{"n": ' || number || '}' FROM jobs WHERE number > 1000
