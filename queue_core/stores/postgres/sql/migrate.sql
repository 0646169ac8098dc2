-- name: versions
-- Make the list of the migrations that were applied.
CREATE TABLE IF NOT EXISTS schema_version (
    version int PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)

-- name: record
-- Note a migration as applied.
INSERT INTO schema_version (version, name) VALUES (%(version)s, %(name)s)

-- name: patience
-- Wait a minute for another process that migrates.
SELECT set_config('lock_timeout', '60s', true)

-- name: lock
-- Let one process at a time migrate, until the end of its transaction; the number is this package's own.
SELECT pg_advisory_xact_lock(5812640217730001)

-- name: impatience
-- Wait only a moment for tables: whatever asks for them meanwhile queues behind this transaction.
SELECT set_config('lock_timeout', '3s', true)

-- name: version
-- Return the version of the schema.
SELECT coalesce(max(version), 0) FROM schema_version
