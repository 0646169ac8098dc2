-- The last message that was ever sent, and the first that is still there.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0), coalesce((SELECT min(number) FROM messages), 0)
