-- Move a running job whose worker was lost back to queued.
UPDATE jobs
   SET place = 'queued', updated_at = ?1, rank = ?2, error = coalesce(?3, error),
       signature = coalesce(?4, signature), kind = coalesce(?5, kind), losses = ?6,
       worker = NULL, started_at = NULL, progress = 0, message = '', expires_at = NULL, cancel = 0
 WHERE number = ?7
