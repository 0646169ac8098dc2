-- Return operations, the newest first.
SELECT number, verb, label, author_user, author_host, why, delay, spread, queue, priority, canary, rate, stop_percent, signatures,
       state, note, total, done, processed, skipped, errored, barrier, created_at, updated_at, started_at, finished_at
  FROM operations
 WHERE number = ANY (%(numbers)s::int[])
 ORDER BY number DESC
