-- Let go of the ordering key of a running job, whose attempt ends.
UPDATE jobs SET holds = NULL WHERE number = ?
