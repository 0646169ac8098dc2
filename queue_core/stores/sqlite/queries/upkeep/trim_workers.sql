-- Forget workers that were lost long ago.
DELETE FROM workers WHERE heartbeat_at < ?
