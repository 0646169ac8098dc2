-- Forget a job.
DELETE FROM jobs WHERE number = ?
