-- A page of the jobs of one place. Long texts stay behind: a page is bounded in bytes, too.
SELECT j.number, j.id, q.name AS queue, j.type, j.place, j.priority, substr(p.payload, 1, :room) AS payload, j.tags,
       j.retry_count, j.max_retries, j.crashes, j.losses, j.token, j.run_at, j.created_at, j.started_at, j.finished_at, j.updated_at,
       j.error, substr(j.result, 1, :room) AS result, j.signature, j.kind, j.progress, j.message, j.worker, j.expires_at,
       j.cancel, j.trashed_at, j.ordering_key, j.unique_key, NULL AS traceback
  FROM jobs j {index} CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number
 WHERE {place}
   AND {conditions}
 ORDER BY {order}
 LIMIT :limit
