-- End a transaction.
COMMIT
