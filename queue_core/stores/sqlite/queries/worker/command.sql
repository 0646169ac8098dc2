-- The order that waits for a worker.
SELECT command FROM workers WHERE id = ?
