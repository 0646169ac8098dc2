-- Forget minutes that no trend shows any more.
DELETE FROM signature_minutes WHERE minute < ?
