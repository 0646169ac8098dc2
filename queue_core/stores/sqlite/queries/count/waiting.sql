-- How many jobs of a queue wait, by band of priority.
SELECT high, normal, low FROM queues WHERE number = ?
