-- Remove a worker's entry and its leaderships after its end; others hear of it and look for the lead, and those at its place look who
-- is there.
WITH resigned AS (
    DELETE FROM leaders WHERE worker = %(worker)s RETURNING duty
), gone AS (
    DELETE FROM workers WHERE id = %(worker)s RETURNING place
)
SELECT pg_notify('queue_core_leader', '') FROM resigned WHERE duty = 'sweep'
UNION ALL
SELECT pg_notify('queue_core_orders', place) FROM gone WHERE place <> ''
