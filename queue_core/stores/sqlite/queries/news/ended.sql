-- Those of these jobs that have ended.
SELECT id FROM jobs
 WHERE id IN (SELECT value FROM json_each(?)) AND place IN ('completed', 'cancelled', 'dead', 'trashed')
