-- Those of them that have an error signature.
SELECT s.operation
  FROM operation_signatures s CROSS JOIN operations o ON o.number = s.operation
 WHERE s.signature = :signature AND s.operation < :before AND (o.finished_at IS NULL OR NOT :unfinished)
 ORDER BY s.operation DESC
 LIMIT :limit
