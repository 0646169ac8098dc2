-- Return the number of a queue.
SELECT id FROM queues WHERE name = %(queue)s
