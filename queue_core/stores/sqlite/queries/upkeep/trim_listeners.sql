-- Forget listeners that are gone.
DELETE FROM listeners WHERE expires_at < ?
