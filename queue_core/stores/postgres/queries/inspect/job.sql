-- One job with everything known about it, wherever it is; the newest should an id have been used again.
SELECT v.id, v.queue, v.type, v.status::text AS status, v.priority, v.payload, v.tags,
       v.retry_count, v.max_retries, v.crashes, v.losses, v.token, v.run_at, v.created_at, v.started_at, v.finished_at, v.updated_at,
       v.error, v.result, v.signature, v.kind, v.progress, v.message, v.worker, v.expires_at, v.cancel, v.trashed_at,
       v.ordering_key, v.unique_key,
       (SELECT a.traceback FROM job_attempts a WHERE a.job_id = v.id ORDER BY a.token DESC LIMIT 1) AS traceback
  FROM all_jobs v
 WHERE v.id = %(id)s::uuid
 ORDER BY v.updated_at DESC
 LIMIT 1
