-- name: number
-- The number of a release.
SELECT id FROM {schema}.releases WHERE name = %(name)s

-- name: lock
-- Let one transaction at a time give out places.
SELECT pg_advisory_xact_lock(hashtextextended('queue_core releases {schema}', 0))

-- name: in_order
-- All releases in their order.
SELECT id, name, place, first_seen FROM {schema}.releases ORDER BY place

-- name: register
-- Write a release at a place; those from there on move up by one.
WITH moved AS (
    UPDATE {schema}.releases SET place = place + 1 WHERE place >= %(place)s
)
INSERT INTO {schema}.releases (name, place) VALUES (%(name)s, %(place)s) RETURNING id

-- name: forget
-- Forget the first releases that no worker has, with what is counted of them.
WITH gone AS (
    DELETE FROM {schema}.releases
     WHERE id = ANY (ARRAY(SELECT r.id FROM {schema}.releases r
                            WHERE NOT EXISTS (SELECT FROM {schema}.workers w WHERE w.release = r.id)
                            ORDER BY r.place LIMIT %(surplus)s))
    RETURNING id
), deaths AS (
    DELETE FROM {schema}.signature_releases WHERE release = ANY (ARRAY(SELECT id FROM gone))
)
DELETE FROM {schema}.type_releases WHERE release = ANY (ARRAY(SELECT id FROM gone))
