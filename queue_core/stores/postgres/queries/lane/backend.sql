-- Return the process that serves this session; behind a pooler, another one than the connection was told.
SELECT pg_backend_pid()
