-- Move a running job back to queued or scheduled, as one that arrives now.
UPDATE jobs
   SET place = ?3, ended = 'released', updated_at = ?1, rank = ?2, seq = ?4, run_at = ?5, aged = ?7, holds = ?8,
       worker = NULL, started_at = NULL, progress = 0, message = '', expires_at = NULL, cancel = 0
 WHERE number = ?6
