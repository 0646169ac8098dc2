-- Add to the deaths by one error in a minute.
INSERT INTO signature_minutes (minute, signature, queue_id, n) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET n = n + excluded.n
