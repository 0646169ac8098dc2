-- Undo a transaction.
ROLLBACK
