-- Create a queue.
INSERT INTO queues (name) VALUES (?)
