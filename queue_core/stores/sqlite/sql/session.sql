-- name: soft
-- From now on a loss of power may take back the last commits; a crash of a process still takes none.
PRAGMA synchronous = NORMAL

-- name: begin_read
-- Start a transaction that sees one moment.
BEGIN DEFERRED

-- name: setup
-- Every connection's settings: memory in KiB for pages and in pages for the log between two checkpoints, its size in bytes.
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -32768;
PRAGMA wal_autocheckpoint = 2000;
PRAGMA journal_size_limit = 67108864;
PRAGMA trusted_schema = OFF;

-- name: look_only
-- Refuse writes on this connection.
PRAGMA query_only = ON

-- name: data_version
-- A number that changes when another connection has committed something.
PRAGMA data_version
