-- Remove expired leases without a job: what a crash of the server between two asynchronous commits can leave.
DELETE FROM leases l WHERE l.expires_at < now() AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = l.id)
