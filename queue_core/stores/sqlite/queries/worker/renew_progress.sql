-- Prolong a lease and record progress, which never falls.
UPDATE jobs SET expires_at = ?, begun = max(begun, ?), progress = max(progress, ?), message = ? WHERE id = ?
