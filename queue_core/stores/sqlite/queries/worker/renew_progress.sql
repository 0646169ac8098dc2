-- Prolong a lease and record progress, which never falls.
UPDATE jobs SET expires_at = ?, progress = max(progress, ?), message = ? WHERE id = ?
