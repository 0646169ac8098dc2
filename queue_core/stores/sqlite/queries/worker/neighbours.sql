-- The other workers at a place.
SELECT id, process FROM workers WHERE place = ? AND id <> ? AND process <> ''
