-- Move a job from the trash back into the DLQ, where it stands at the time of its death.
UPDATE jobs SET place = 'dead', trashed_at = NULL, updated_at = finished_at WHERE number = ?
