-- Return how a transaction is kept apart from others.
SELECT current_setting('transaction_isolation')
