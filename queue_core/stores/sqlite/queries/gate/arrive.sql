-- Move a due job to queued, ready or to wait for its turn.
UPDATE jobs SET place = 'queued', rank = ?, holds = ?, updated_at = ? WHERE number = ?
