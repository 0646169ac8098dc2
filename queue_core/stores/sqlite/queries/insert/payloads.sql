-- Write a job's payload.
INSERT INTO payloads (number, payload) VALUES (?, ?)
