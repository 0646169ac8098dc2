-- Add to the counts of a queue.
UPDATE queues SET running = running + ?, high = high + ?, normal = normal + ?, low = low + ? WHERE number = ?
