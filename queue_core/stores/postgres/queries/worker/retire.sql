-- Remove a worker's entry and its leaderships after its end.
WITH resigned AS (DELETE FROM leaders WHERE worker = %(worker)s)
DELETE FROM workers WHERE id = %(worker)s
