-- Add to what happened in a minute.
INSERT INTO minutes (minute, queue_id, outcome, n) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n
