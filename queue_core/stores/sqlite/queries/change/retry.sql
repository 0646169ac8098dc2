-- Move a finished job to queued or scheduled, with the order of one that arrives now.
UPDATE jobs
   SET place = ?1, seq = ?2, rank = ?3, run_at = ?4, updated_at = ?5, aged = ?7, holds = ?8, queue_id = ?9, priority = ?10,
       ordering_key = ?11, retry_count = 0, losses = 0, finished_at = NULL, trashed_at = NULL, result = NULL, worker = NULL,
       started_at = NULL, progress = 0, message = ''
 WHERE number = ?6
