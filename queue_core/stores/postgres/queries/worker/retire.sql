-- Remove a worker's entry and its leaderships after its end; others hear of it and look for the lead.
WITH resigned AS (
    DELETE FROM leaders WHERE worker = %(worker)s RETURNING duty
), gone AS (
    DELETE FROM workers WHERE id = %(worker)s
)
SELECT pg_notify('queue_core_leader', '') FROM resigned WHERE duty = 'sweep'
