-- How many jobs are in a place.
SELECT count(*) FROM jobs INDEXED BY jobs_listed WHERE place = ?
