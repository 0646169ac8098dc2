-- Return how far the order of arrival has come; nothing where nothing can be claimed.
SELECT s.last_value FROM job_seq s, queues q
 WHERE q.id = %(queue_id)s AND q.name = %(queue)s AND q.paused_at IS NULL AND EXISTS (SELECT FROM lease_epoch_live)
