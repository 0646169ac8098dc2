-- The id of the job that holds a unique key.
SELECT u.id
  FROM unique_keys u LEFT JOIN jobs j ON j.number = u.job
 WHERE u.queue_id = ? AND u.unique_key = ?
   AND (u.until > ? OR u.until IS NULL AND j.place IN ('scheduled', 'queued', 'running', 'retrying'))
