-- Leave an order for a worker, which its next heartbeat takes.
UPDATE workers SET command = %(command)s WHERE id = %(worker)s RETURNING id
