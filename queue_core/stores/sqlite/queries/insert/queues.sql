-- The numbers of queues by their names, and whether they count their jobs.
SELECT name, number, counted FROM queues WHERE name IN (SELECT value FROM json_each(?))
