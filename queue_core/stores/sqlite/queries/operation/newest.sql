-- Operations older than a number, the newest first.
SELECT number FROM operations WHERE number < :before ORDER BY number DESC LIMIT :limit
