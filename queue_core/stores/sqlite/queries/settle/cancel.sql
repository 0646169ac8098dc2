-- Move a running job to cancelled.
UPDATE jobs
   SET place = 'cancelled', ended = ?2, finished_at = ?1, updated_at = ?1, expires_at = NULL, cancel = 0, progress = 0, message = '',
       error = coalesce(?3, error), signature = coalesce(?4, signature), kind = coalesce(?5, kind), losses = ?6
 WHERE number = ?7
