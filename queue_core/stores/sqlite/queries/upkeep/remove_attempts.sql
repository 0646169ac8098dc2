-- Forget the attempts of a job.
DELETE FROM attempts WHERE job = ?
