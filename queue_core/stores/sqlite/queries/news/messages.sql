-- The messages behind a number.
SELECT number, sender, body FROM messages WHERE number > ? ORDER BY number LIMIT ?
