-- Forget events that every listener has read by now.
DELETE FROM messages WHERE sent_at < ?
