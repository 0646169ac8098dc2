-- Listen for a while, or go on listening.
INSERT INTO listeners (id, expires_at) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at
