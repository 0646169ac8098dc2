-- Jobs by their numbers, with everything a worker needs, in the order of the numbers given.
SELECT j.number, j.id, j.type, p.payload, j.priority, j.rank, j.retry_count, j.max_retries, j.crashes, j.created_at, j.tags,
       j.token, j.ended, j.ordering_key, j.losses
  FROM json_each(?) i CROSS JOIN jobs j ON j.number = i.value CROSS JOIN payloads p ON p.number = j.number
