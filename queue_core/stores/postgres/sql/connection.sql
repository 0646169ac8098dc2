-- name: backend
-- Return the process that serves this session; behind a pooler, another one than the connection was given.
SELECT pg_backend_pid()

-- name: dates
-- Have moments written as the driver reads them.
SET DateStyle = 'ISO'
