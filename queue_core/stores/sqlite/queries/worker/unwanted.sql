-- The jobs of a worker that somebody asked to cancel.
SELECT id FROM jobs INDEXED BY jobs_unwanted WHERE cancel = 1 AND worker = ?
