-- Move the ends of leaderships along with a clock that was set.
UPDATE leaders SET expires_at = expires_at + :seconds
