-- Remove a worker's leaderships after its end.
DELETE FROM leaders WHERE worker = ?
