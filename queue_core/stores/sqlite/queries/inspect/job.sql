-- One job with everything known about it.
SELECT j.id, q.name AS queue, j.type, j.place, j.priority, p.payload, j.tags, j.retry_count, j.max_retries, j.crashes, j.losses, j.token,
       j.run_at, j.created_at, j.started_at, j.finished_at, j.updated_at, j.error, j.result, j.signature, j.kind, j.progress,
       j.message, j.worker, j.expires_at, j.cancel, j.trashed_at, j.ordering_key, j.unique_key,
       (SELECT a.traceback FROM attempts a WHERE a.job = j.number ORDER BY a.token DESC LIMIT 1) AS traceback
  FROM jobs j CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number
 WHERE j.id = ?
