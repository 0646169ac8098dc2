-- Those of them that have not ended.
SELECT number
  FROM operations INDEXED BY operations_unfinished
 WHERE finished_at IS NULL AND number < :before
 ORDER BY number DESC
 LIMIT :limit
