-- Move a running job to dead, with what its last attempt left.
UPDATE jobs
   SET place = 'dead', ended = ?2, finished_at = ?1, updated_at = ?1, expires_at = NULL, cancel = 0,
       error = coalesce(?3, error), signature = coalesce(?4, signature), kind = coalesce(?5, kind), crashes = ?6, losses = ?7
 WHERE number = ?8
