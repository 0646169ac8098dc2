-- Give a job a new token, so that an operation that had chosen it before passes it over.
UPDATE jobs SET token = ?, ended = NULL WHERE number = ?
