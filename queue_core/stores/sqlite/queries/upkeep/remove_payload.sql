-- Forget the payload of a job.
DELETE FROM payloads WHERE number = ?
