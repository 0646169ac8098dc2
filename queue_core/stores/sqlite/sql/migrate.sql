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
-- Set the schema's version; a pragma takes no parameters, so the number is filled in.
PRAGMA user_version = {version}

-- name: rollback
-- Take back everything since the begin.
ROLLBACK

-- name: rename
-- Give the tables of version 1 the names of version 2. Names of constraints stay: SQLite cannot rename them.
ALTER TABLE queues RENAME COLUMN arrived TO ready_total;
ALTER TABLE queues RENAME COLUMN counted TO keeps_counts;
ALTER TABLE jobs RENAME COLUMN place TO state;
ALTER TABLE jobs RENAME COLUMN aged TO aged_rank;
ALTER TABLE jobs RENAME COLUMN ended TO last_outcome;
ALTER TABLE jobs RENAME COLUMN begun TO started;
ALTER TABLE jobs RENAME COLUMN holds TO admitted;
DROP INDEX jobs_unwanted;
CREATE INDEX jobs_cancelled ON jobs (worker) WHERE cancel = 1;
DROP INDEX jobs_gate;
CREATE INDEX jobs_ordering ON jobs (queue_id, ordering_key, admitted, seq, type, priority, run_at) WHERE admitted IS NOT NULL;
ALTER TABLE attempts RENAME TO job_attempts;
ALTER TABLE endings RENAME TO attempt_outcomes;
ALTER TABLE unique_keys RENAME COLUMN unique_key TO key;
ALTER TABLE unique_keys RENAME COLUMN id TO job_id;
ALTER TABLE unique_keys RENAME COLUMN until TO expires_at;
DROP INDEX unique_keys_until;
CREATE INDEX unique_keys_expires ON unique_keys (expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE operations RENAME COLUMN user TO author_user;
ALTER TABLE operations RENAME COLUMN host TO author_host;
ALTER TABLE operation_members RENAME COLUMN place TO position;
