-- Prolong a lease.
UPDATE jobs SET expires_at = ? WHERE id = ?
