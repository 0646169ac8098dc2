-- How many jobs ever became ready in each queue.
SELECT name, arrived FROM queues
