-- Forget leaderships that ended long ago.
DELETE FROM leaders WHERE expires_at < ?
