-- The failed attempts of a job, oldest first.
SELECT j.id, a.token, a.number, a.kind, a.exception, a.message, a.traceback, a.signature, a.worker, a.started_at, a.finished_at
  FROM jobs j CROSS JOIN attempts a ON a.job = j.number
 WHERE j.id = ?
 ORDER BY a.token
