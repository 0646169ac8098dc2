-- The numbers of queues by their names.
SELECT name, number FROM queues WHERE name IN (SELECT value FROM json_each(?))
