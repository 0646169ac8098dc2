-- Leave a message.
INSERT INTO messages (sender, body, sent_at) VALUES (?, ?, ?)
