-- Forget an operation.
DELETE FROM operations WHERE number = ?
