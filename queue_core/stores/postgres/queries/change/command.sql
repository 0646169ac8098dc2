-- Leave an order for a worker, which its next heartbeat takes; it hears of it and beats at once.
WITH ordered AS (
    UPDATE workers SET command = %(command)s WHERE id = %(worker)s RETURNING id
)
SELECT id, pg_notify('queue_core_orders', id) FROM ordered
