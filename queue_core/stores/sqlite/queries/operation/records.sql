-- Operations by their numbers, in the same order.
SELECT o.number, verb, label, user, host, why, delay, spread, queue, priority, canary, rate, stop_percent, signatures, state, note,
       total, done, processed, skipped, errored, barrier, created_at, updated_at, started_at, finished_at, next_at
  FROM json_each(?) i CROSS JOIN operations o ON o.number = i.value
 ORDER BY i.key
