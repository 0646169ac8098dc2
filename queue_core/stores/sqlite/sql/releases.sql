-- name: number
-- The number of a release.
SELECT number FROM releases WHERE name = ?

-- name: in_order
-- All releases in their order.
SELECT number, name, place, first_seen FROM releases ORDER BY place

-- name: move_up
-- Make room for a release at a place.
UPDATE releases SET place = place + 1 WHERE place >= ?

-- name: register
-- Write a release at a place that is free.
INSERT INTO releases (name, place, first_seen) VALUES (?, ?, ?)

-- name: forget
-- Forget the first releases that no worker has.
DELETE FROM releases
 WHERE number IN (SELECT r.number FROM releases r
                   WHERE NOT EXISTS (SELECT 1 FROM workers w WHERE w.release = r.number)
                   ORDER BY r.place LIMIT ?)
