-- name: numbers
-- The last message that was ever sent, and the first that is still there.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0), coalesce((SELECT min(number) FROM messages), 0)

-- name: listen
-- Listen for a while, or go on listening.
INSERT INTO listeners (id, expires_at) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at

-- name: publish
-- Leave a message.
INSERT INTO messages (sender, body, sent_at) VALUES (?, ?, ?)

-- name: forget
-- Keep only the last messages.
DELETE FROM messages WHERE number <= (SELECT max(number) FROM messages) - ?

-- name: ready_totals
-- How many jobs ever became ready in each queue.
SELECT name, ready_total FROM queues

-- name: messages
-- The messages behind a number.
SELECT number, sender, body FROM messages WHERE number > ? ORDER BY number LIMIT ?

-- name: ready
-- Queues with ready jobs.
SELECT q.name FROM queues q WHERE EXISTS (SELECT 1 FROM jobs j INDEXED BY jobs_ready WHERE j.queue_id = q.number AND j.rank IS NOT NULL)

-- name: ended
-- Those of these jobs that have ended.
SELECT id FROM jobs
 WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('completed', 'cancelled', 'dead', 'trashed')

-- name: listeners
-- Whether another process listens.
SELECT EXISTS (SELECT 1 FROM listeners WHERE id <> ? AND expires_at > ?)
