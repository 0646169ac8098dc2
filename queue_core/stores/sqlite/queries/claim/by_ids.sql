-- Those of the nominated jobs that are ready in this queue, by rank.
SELECT j.number, j.id, j.type, p.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
       j.token, j.ended, j.ordering_key, j.losses
  FROM json_each(:ids) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN payloads p ON p.number = j.number
 WHERE j.queue_id = :queue_id AND j.rank IS NOT NULL AND (:types IS NULL OR j.type IN (SELECT value FROM json_each(:types)))
 ORDER BY j.rank
 LIMIT :limit
