-- Move a waiting job to cancelled.
UPDATE jobs SET place = 'cancelled', rank = NULL, holds = NULL, finished_at = ?1, updated_at = ?1, ended = NULL WHERE number = ?2
