-- The part of a page that one place holds: first which jobs, by narrow rows, then what is shown of them. Long texts stay
-- behind, for a page is bounded in bytes, too.
(SELECT v.id, v.queue, v.type, v.status::text AS status, v.priority, left(v.payload, %(room)s) AS payload, v.tags,
        v.retry_count, v.max_retries, v.crashes, v.losses, v.token, v.run_at, v.created_at, v.started_at, v.finished_at, v.updated_at,
        v.error, left(v.result, %(room)s) AS result, v.signature, v.kind, v.progress, v.message, v.worker, v.expires_at,
        v.cancel, v.trashed_at, v.ordering_key, v.unique_key, NULL::text AS traceback
   FROM (SELECT v.id, v.updated_at FROM {place} v WHERE {conditions} ORDER BY {order} LIMIT %(limit)s) f
   JOIN {place} v ON v.id = f.id AND v.updated_at = f.updated_at)
