-- The matching jobs of one place, no more than a limit.
(SELECT FROM {place} v WHERE {conditions} LIMIT %(limit)s)
