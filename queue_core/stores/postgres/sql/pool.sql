-- name: snapshot
-- Begin a transaction whose statements see one moment, and nothing else; behind it come the bounds.
BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: reads_alone
-- Whether transactions that do not ask for writes in so many words may only read, and enqueues therefore fail; whether that is so
-- since the server is a standby; and whether this role or this client has set it for itself alone.
SELECT current_setting('default_transaction_read_only')::bool, pg_is_in_recovery(), EXISTS (
    SELECT FROM pg_settings
    WHERE name = 'default_transaction_read_only' AND source IN ('user', 'database user', 'client')
)

-- name: room
-- Make the server write some 100 KB to the disk of this database, in a file that ends with the statement: they are more than fits
-- into this memory. No right is needed for it, and nothing is written to a table.
SET LOCAL temp_tablespaces = '';
SET LOCAL work_mem = 64;
SELECT count(*) FROM generate_series(1, 4000)
