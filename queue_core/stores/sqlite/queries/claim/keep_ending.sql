-- Remember how an attempt ended before the next one begins.
INSERT OR IGNORE INTO endings (job, token, kind) VALUES (?, ?, ?)
