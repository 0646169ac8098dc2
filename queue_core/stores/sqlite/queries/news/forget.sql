-- Keep only the last messages.
DELETE FROM messages WHERE number <= (SELECT max(number) FROM messages) - ?
