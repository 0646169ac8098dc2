-- How many jobs of a queue run.
SELECT running FROM queues WHERE number = ?
