-- Move a running job back to queued.
UPDATE jobs
   SET place = 'queued', ended = 'released', updated_at = ?1, rank = ?2, losses = losses + ?4,
       error = coalesce(?5, error), signature = coalesce(?6, signature), kind = coalesce(?7, kind),
       worker = NULL, started_at = NULL, progress = 0, message = '', expires_at = NULL, cancel = 0
 WHERE number = ?3
