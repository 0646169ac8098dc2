-- Those of these jobs that are ready in this queue and of these types, by rank.
SELECT j.id, j.rank
  FROM json_each(:ids) i CROSS JOIN jobs j ON j.id = i.value
 WHERE j.queue_id = :queue_id AND j.rank IS NOT NULL AND (:types IS NULL OR j.type IN (SELECT value FROM json_each(:types)))
 ORDER BY j.rank
