-- Make the list of the migrations that were applied.
CREATE TABLE IF NOT EXISTS schema_version (
    version int PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
