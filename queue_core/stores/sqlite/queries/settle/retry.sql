-- Move a running job to retrying, due at a time.
UPDATE jobs
   SET place = 'retrying', ended = 'retrying', updated_at = ?1, run_at = ?2, retry_count = retry_count + 1,
       error = coalesce(?3, error), signature = coalesce(?4, signature), kind = coalesce(?5, kind),
       worker = NULL, started_at = NULL, progress = 0, message = '', expires_at = NULL, cancel = 0
 WHERE number = ?6
