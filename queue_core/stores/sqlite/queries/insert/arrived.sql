-- Count jobs that became ready in a queue.
UPDATE queues SET arrived = arrived + ? WHERE number = ?
