-- Whether somebody else listens.
SELECT EXISTS (SELECT 1 FROM listeners WHERE id <> ? AND expires_at > ?)
