-- Prolong a lease.
UPDATE jobs SET expires_at = ?, begun = max(begun, ?) WHERE id = ?
