-- Forget the title of an error signature.
DELETE FROM error_signatures WHERE signature = ?
