-- name: versions
-- Make the list of the migrations that were applied.
CREATE TABLE IF NOT EXISTS {schema}.schema_version (
    version int PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)

-- name: record
-- Store that a migration was applied.
INSERT INTO {schema}.schema_version (version, name) VALUES (%(version)s, %(name)s)

-- name: begin
-- Begin a transaction that waits a minute for another process that migrates. One whose client is frozen or cut off ends by itself.
-- What a role or a database sets for its sessions does not count: a statement on large tables may take its time.
BEGIN;
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = '60s';
SET LOCAL idle_in_transaction_session_timeout = '1s'

-- name: glance
-- Begin a transaction that only reads what is there, all of it as of one moment, whatever a role or a database sets for its sessions.
BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL statement_timeout = '10s';
SET LOCAL lock_timeout = '3s';
SET LOCAL idle_in_transaction_session_timeout = '10s'

-- name: lock
-- Let one process at a time migrate this schema, until the end of its transaction.
SELECT pg_advisory_xact_lock(hashtextextended('queue_core migrate {schema}', 0))

-- name: impatience
-- Wait only a moment for tables: whatever asks for them meanwhile queues behind this transaction.
SELECT set_config('lock_timeout', '3s', true)

-- name: version
-- Return the version of the schema.
SELECT coalesce(max(version), 0) FROM {schema}.schema_version

-- name: grants
-- Return whether the schema is there, whether this role may look into it (null: it is not there), whether it may make tables in it,
-- or make it, and the names of the role and the database.
SELECT to_regnamespace('{schema}') IS NOT NULL,
       has_schema_privilege(to_regnamespace('{schema}'), 'USAGE'),
       coalesce(has_schema_privilege(to_regnamespace('{schema}'), 'CREATE'), has_database_privilege(current_database(), 'CREATE')),
       current_user::text, current_database()::text

-- name: tables
-- Return the names of the tables in the schema, none where it is not there.
SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace('{schema}') AND relkind IN ('r', 'p') AND NOT relispartition

-- name: encoding
-- Return the encoding and the name of the database.
SELECT current_setting('server_encoding'), current_database()::text

-- name: make_schema
-- Make the schema.
CREATE SCHEMA IF NOT EXISTS {schema}

-- name: others
-- Return a few other schemas with the tables of this version, one of which may have been meant. Before it there was a function
-- that is not made any more.
SELECT n.nspname::text FROM pg_namespace n
 WHERE n.oid IS DISTINCT FROM to_regnamespace('{schema}')::oid
   AND (SELECT count(*) FROM pg_class c
         WHERE c.relnamespace = n.oid AND c.relname IN ('schema_version', 'jobs', 'jobs_dead', 'lease_epoch')) = 4
   AND NOT EXISTS (SELECT FROM pg_proc f WHERE f.pronamespace = n.oid AND f.proname = 'drop_job_history')
 ORDER BY n.nspname LIMIT 5

-- name: earlier
-- Return the schema in which a version before 1 has its tables: where unqualified names lead to, or public. It had a function that
-- is not made any more.
SELECT n.nspname::text
  FROM unnest(current_schemas(false) || 'public'::name) WITH ORDINALITY AS p (name, position)
  JOIN pg_namespace n ON n.nspname = p.name
 WHERE (SELECT count(*) FROM pg_class c
         WHERE c.relnamespace = n.oid AND c.relname IN ('schema_version', 'jobs', 'leases', 'lease_epoch')) = 4
   AND EXISTS (SELECT FROM pg_proc f WHERE f.pronamespace = n.oid AND f.proname = 'drop_job_history')
 ORDER BY p.position
 LIMIT 1

-- name: lock_earlier
-- Wait for an earlier version that migrates; the number is the one that it takes.
SELECT pg_advisory_xact_lock(5812640217730001)

-- name: earlier_version
-- Return the version of an earlier version's tables.
SELECT coalesce(max(version), 0) FROM {earlier}.schema_version

-- name: earlier_days
-- Return the days of an earlier version's history, also those that were detached and not yet dropped.
SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %(earlier)s AND c.relkind = 'r' AND c.relname ~ '^job_history_[0-9]{8}$'

-- name: take_over_day
-- Move a day of an earlier version's history into the schema.
ALTER TABLE {earlier}.{day} SET SCHEMA {schema}

-- name: take_over
-- Move an earlier version's tables, of its last schema, into this one; what depends on them goes with them. It waits for
-- transactions that use them, and an earlier version does not find them any more.
DROP FUNCTION {earlier}.drop_job_history(timestamptz);
DROP FUNCTION {earlier}.make_job_history(int);
ALTER TABLE {earlier}.queues SET SCHEMA {schema};
ALTER TABLE {earlier}.jobs SET SCHEMA {schema};
ALTER TABLE {earlier}.leases SET SCHEMA {schema};
ALTER TABLE {earlier}.lease_epoch SET SCHEMA {schema};
ALTER TABLE {earlier}.lease_epoch_live SET SCHEMA {schema};
ALTER TABLE {earlier}.jobs_dead SET SCHEMA {schema};
ALTER TABLE {earlier}.error_signatures SET SCHEMA {schema};
ALTER TABLE {earlier}.job_attempts SET SCHEMA {schema};
ALTER TABLE {earlier}.job_history SET SCHEMA {schema};
ALTER TABLE {earlier}.workers SET SCHEMA {schema};
ALTER TABLE {earlier}.leaders SET SCHEMA {schema};
ALTER TABLE {earlier}.tally_deltas SET SCHEMA {schema};
ALTER TABLE {earlier}.tallies SET SCHEMA {schema};
ALTER TABLE {earlier}.minutes SET SCHEMA {schema};
ALTER TABLE {earlier}.signature_minutes SET SCHEMA {schema};
ALTER TABLE {earlier}.order_gates SET SCHEMA {schema};
ALTER TABLE {earlier}.order_checks SET SCHEMA {schema};
ALTER TABLE {earlier}.job_keys SET SCHEMA {schema};
ALTER TABLE {earlier}.queue_rooms SET SCHEMA {schema};
ALTER TABLE {earlier}.queue_returns SET SCHEMA {schema};
ALTER TABLE {earlier}.queue_starts SET SCHEMA {schema};
ALTER TABLE {earlier}.queue_arrivals SET SCHEMA {schema};
ALTER TABLE {earlier}.schedules SET SCHEMA {schema};
ALTER TABLE {earlier}.schedule_ticks SET SCHEMA {schema};
ALTER TABLE {earlier}.job_logs SET SCHEMA {schema};
ALTER TABLE {earlier}.task_types SET SCHEMA {schema};
ALTER TABLE {earlier}.operations SET SCHEMA {schema};
ALTER TABLE {earlier}.operation_members SET SCHEMA {schema};
ALTER TABLE {earlier}.schema_version SET SCHEMA {schema};
ALTER VIEW {earlier}.running_jobs SET SCHEMA {schema};
ALTER VIEW {earlier}.waiting_jobs SET SCHEMA {schema};
ALTER VIEW {earlier}.dead_jobs SET SCHEMA {schema};
ALTER VIEW {earlier}.trashed_jobs SET SCHEMA {schema};
ALTER VIEW {earlier}.finished_jobs SET SCHEMA {schema};
ALTER VIEW {earlier}.all_jobs SET SCHEMA {schema};
ALTER SEQUENCE {earlier}.job_seq SET SCHEMA {schema};
ALTER SEQUENCE {earlier}.lease_seq SET SCHEMA {schema};
ALTER TYPE {earlier}.job_status SET SCHEMA {schema};
ALTER FUNCTION {earlier}.payload_matches SET SCHEMA {schema};
ALTER FUNCTION {earlier}.priority_band SET SCHEMA {schema};
ALTER FUNCTION {earlier}.aged_rank SET SCHEMA {schema};
CREATE FUNCTION {schema}.make_job_history(days_ahead int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    day date;
    name text;
    made int := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('queue_core history {schema}', 0));
    FOR day IN SELECT today + n FROM generate_series(-1, days_ahead) AS n LOOP
        name := 'job_history_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN EXISTS (SELECT FROM pg_class AS there JOIN pg_class AS parent ON parent.relnamespace = there.relnamespace
                               WHERE parent.oid = '{schema}.job_history'::regclass AND there.relname = name);
        EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.job_history INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE {schema}.job_history ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)', name,
                       to_char(day, 'YYYY-MM-DD') || ' 00:00+00', to_char(day + 1, 'YYYY-MM-DD') || ' 00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
DELETE FROM {schema}.schema_version;
INSERT INTO {schema}.schema_version (version, name) VALUES (1, 'schema')

-- name: rename
-- Give the tables of version 1 the names of version 2. It waits for transactions that use them.
ALTER TABLE {schema}.jobs RENAME COLUMN holds TO admitted;
ALTER TABLE {schema}.jobs RENAME COLUMN place TO aged_rank;
ALTER INDEX {schema}.jobs_keyed RENAME TO jobs_ordering;
ALTER TABLE {schema}.jobs_dead RENAME COLUMN holds TO admitted;
ALTER INDEX {schema}.jobs_dead_holding RENAME TO jobs_dead_admitted;
ALTER TABLE {schema}.leases RENAME COLUMN begun TO started;
ALTER TABLE {schema}.leases RENAME COLUMN counted TO limited;
ALTER INDEX {schema}.leases_counted RENAME TO leases_limited;
ALTER TABLE {schema}.order_gates RENAME TO ordering_locks;
ALTER TABLE {schema}.ordering_locks RENAME COLUMN passed TO low_watermark;
ALTER TABLE {schema}.ordering_locks RENAME CONSTRAINT order_gates_pkey TO ordering_locks_pkey;
ALTER TABLE {schema}.order_checks RENAME TO ordering_pending;
ALTER TABLE {schema}.job_keys RENAME TO unique_keys;
ALTER TABLE {schema}.unique_keys RENAME CONSTRAINT job_keys_pkey TO unique_keys_pkey;
ALTER INDEX {schema}.job_keys_expires RENAME TO unique_keys_expires;
ALTER TABLE {schema}.queue_rooms RENAME TO queue_capacity;
ALTER TABLE {schema}.queue_capacity RENAME COLUMN most TO capacity;
ALTER TABLE {schema}.queue_capacity RENAME COLUMN room TO free;
ALTER TABLE {schema}.queue_capacity RENAME CONSTRAINT queue_rooms_pkey TO queue_capacity_pkey;
ALTER TABLE {schema}.queue_capacity RENAME CONSTRAINT queue_rooms_band_check TO queue_capacity_band_check;
ALTER TABLE {schema}.queue_capacity RENAME CONSTRAINT queue_rooms_room_check TO queue_capacity_free_check;
ALTER TABLE {schema}.queue_returns RENAME TO capacity_requeued;
ALTER INDEX {schema}.queue_returns_queue RENAME TO capacity_requeued_queue;
ALTER TABLE {schema}.queue_starts RENAME TO queue_rates;
ALTER TABLE {schema}.queue_rates RENAME CONSTRAINT queue_starts_pkey TO queue_rates_pkey;
ALTER TABLE {schema}.operation_members RENAME COLUMN place TO position;
ALTER TABLE {schema}.operation_members RENAME CONSTRAINT operation_members_place_check TO operation_members_position_check;
INSERT INTO {schema}.schema_version (version, name) VALUES (2, 'schema')

-- name: drop
-- Remove the schema with everything in it, if it is there.
DROP SCHEMA IF EXISTS {schema} CASCADE
