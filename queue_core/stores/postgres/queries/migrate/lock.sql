-- Let one process at a time migrate, until the end of its transaction; the number is this package's own.
SELECT pg_advisory_xact_lock(5812640217730001)
