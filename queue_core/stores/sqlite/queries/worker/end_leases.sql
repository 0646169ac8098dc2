-- End the leases of a worker whose process is gone.
UPDATE jobs INDEXED BY jobs_listed SET expires_at = 0 WHERE place = 'running' AND worker = ?
