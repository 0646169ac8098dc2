-- Remove a worker's entry after its end.
DELETE FROM workers WHERE id = ?
