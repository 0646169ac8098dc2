-- Forget minutes that no series shows any more.
DELETE FROM minutes WHERE minute < ?
