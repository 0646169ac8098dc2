-- Keep what an error is called, from its first time on.
INSERT OR IGNORE INTO error_signatures (signature, title, exception, first_seen) VALUES (?, ?, ?, ?)
