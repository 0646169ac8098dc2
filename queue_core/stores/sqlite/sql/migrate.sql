-- name: begin_write
-- Start a transaction as the only writer.
BEGIN IMMEDIATE

-- name: claim_file
-- Mark the file as one of this program: "JOBC" as a number.
PRAGMA application_id = 1246708291

-- name: wal
-- Keep a write-ahead log, with which readers and one writer do not wait for each other; answers with what is kept.
PRAGMA journal_mode = WAL

-- name: durable
-- From now on a commit returns when it is on the disk.
PRAGMA synchronous = FULL

-- name: commit
-- Make everything since the begin visible to others.
COMMIT

-- name: identity
-- Whose file this is, which schema it has, and whether there is anything in it.
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
       (SELECT count(*) FROM sqlite_schema)

-- name: set_version
-- Note the schema's version; a pragma takes no parameters, so the number is filled in.
PRAGMA user_version = {version}

-- name: rollback
-- Take back everything since the begin.
ROLLBACK
