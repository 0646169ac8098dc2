-- Note an error signature that an operation is all of.
INSERT OR IGNORE INTO operation_signatures (signature, operation) VALUES (?, ?)
