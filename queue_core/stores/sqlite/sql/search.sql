-- name: page
-- The next dead jobs, whether they match or not, and which of them do.
SELECT j.number, j.id, j.updated_at, ({sifting}) AS found
  FROM (SELECT number FROM jobs j {index} WHERE {state} AND {conditions} ORDER BY {order} LIMIT :limit) page
 CROSS JOIN jobs j ON j.number = page.number CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number
 ORDER BY {order}

-- name: total
-- How many dead jobs a search looks at.
SELECT count(*) FROM jobs j {index} WHERE {state} AND {conditions}
