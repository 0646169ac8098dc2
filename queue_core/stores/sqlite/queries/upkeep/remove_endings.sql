-- Forget the endings of a job.
DELETE FROM endings WHERE job = ?
