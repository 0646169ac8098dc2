-- Move a ready job to running.
UPDATE jobs
   SET place = 'running', rank = NULL, token = ?1, ended = NULL, worker = ?2, started_at = ?3, updated_at = ?3, expires_at = ?4,
       begun = ?5, claim = ?6
 WHERE number = ?7
