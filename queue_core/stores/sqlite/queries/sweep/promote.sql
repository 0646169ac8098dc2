-- Move a due job to queued.
UPDATE jobs SET place = 'queued', rank = ?, updated_at = ? WHERE number = ?
