-- Move a running job to completed.
UPDATE jobs
   SET place = 'completed', ended = 'completed', finished_at = ?1, updated_at = ?1, expires_at = NULL, cancel = 0, progress = 100,
       message = '', result = ?2
 WHERE number = ?3
