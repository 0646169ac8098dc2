-- A round trip.
SELECT 1
