-- Move a dead job to the trash.
UPDATE jobs SET place = 'trashed', trashed_at = ?1, updated_at = ?1, holds = NULL WHERE number = ?2
