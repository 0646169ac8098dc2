-- Until when a worker leads a duty.
SELECT expires_at FROM leaders WHERE duty = ? AND worker = ?
