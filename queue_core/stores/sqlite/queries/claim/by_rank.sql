-- The ready jobs of one type of best rank, with everything a worker needs.
SELECT j.number, j.id, j.type, p.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
       j.token, j.ended, j.ordering_key, j.losses
  FROM jobs j INDEXED BY jobs_ready CROSS JOIN payloads p ON p.number = j.number
 WHERE j.queue_id = :queue_id AND j.type = :type AND j.rank IS NOT NULL
 ORDER BY j.rank
 LIMIT :limit
