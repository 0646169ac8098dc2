-- Leave an order for a worker, which its next heartbeat takes.
UPDATE workers SET command = ? WHERE id = ?
