-- End the leases of a worker but for some jobs, as not begun.
UPDATE jobs INDEXED BY jobs_listed SET expires_at = 0, begun = 0
 WHERE place = 'running' AND worker = :worker AND id NOT IN (SELECT value FROM json_each(:begun))
