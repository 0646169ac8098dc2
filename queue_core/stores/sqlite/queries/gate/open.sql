-- Let a job through that waited for its turn.
UPDATE jobs SET holds = 1, rank = ? WHERE number = ?
