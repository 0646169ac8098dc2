-- name: versions
-- Make the list of the migrations that were applied.
CREATE TABLE IF NOT EXISTS {schema}.schema_version (
    version int PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)

-- name: record
-- Note a migration as applied.
INSERT INTO {schema}.schema_version (version, name) VALUES (%(version)s, %(name)s)

-- name: patience
-- Wait a minute for another process that migrates.
SELECT set_config('lock_timeout', '60s', true)

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

-- name: make_schema
-- Make the schema.
CREATE SCHEMA IF NOT EXISTS {schema}

-- name: earlier
-- Return in which schema an earlier version has its tables: where unqualified names lead to, or in public. It had a function that
-- is not made any more.
SELECT n.nspname::text
  FROM unnest(current_schemas(false) || 'public'::name) WITH ORDINALITY AS p (name, place)
  JOIN pg_namespace n ON n.nspname = p.name
 WHERE (SELECT count(*) FROM pg_class c
         WHERE c.relnamespace = n.oid AND c.relname IN ('schema_version', 'jobs', 'leases', 'lease_epoch')) = 4
   AND EXISTS (SELECT FROM pg_proc f WHERE f.pronamespace = n.oid AND f.proname = 'drop_job_history')
 ORDER BY p.place
 LIMIT 1

-- name: lock_earlier
-- Wait for an earlier version that migrates; the number is the one that it takes.
SELECT pg_advisory_xact_lock(5812640217730001)

-- name: earlier_version
-- Return the version of an earlier version's tables.
SELECT coalesce(max(version), 0) FROM {place}.schema_version

-- name: earlier_days
-- Return the days of an earlier version's history, also those that were detached and not yet dropped.
SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %(place)s AND c.relkind = 'r' AND c.relname ~ '^job_history_[0-9]{8}$'

-- name: take_over_day
-- Move a day of an earlier version's history into the schema.
ALTER TABLE {place}.{day} SET SCHEMA {schema}

-- name: take_over
-- Move an earlier version's tables, of its last schema, into this one; what depends on them goes with them. It waits for
-- transactions that use them, and an earlier version does not find them any more.
DROP FUNCTION {place}.drop_job_history(timestamptz);
DROP FUNCTION {place}.make_job_history(int);
ALTER TABLE {place}.queues SET SCHEMA {schema};
ALTER TABLE {place}.jobs SET SCHEMA {schema};
ALTER TABLE {place}.leases SET SCHEMA {schema};
ALTER TABLE {place}.lease_epoch SET SCHEMA {schema};
ALTER TABLE {place}.lease_epoch_live SET SCHEMA {schema};
ALTER TABLE {place}.jobs_dead SET SCHEMA {schema};
ALTER TABLE {place}.error_signatures SET SCHEMA {schema};
ALTER TABLE {place}.job_attempts SET SCHEMA {schema};
ALTER TABLE {place}.job_history SET SCHEMA {schema};
ALTER TABLE {place}.workers SET SCHEMA {schema};
ALTER TABLE {place}.leaders SET SCHEMA {schema};
ALTER TABLE {place}.tally_deltas SET SCHEMA {schema};
ALTER TABLE {place}.tallies SET SCHEMA {schema};
ALTER TABLE {place}.minutes SET SCHEMA {schema};
ALTER TABLE {place}.signature_minutes SET SCHEMA {schema};
ALTER TABLE {place}.order_gates SET SCHEMA {schema};
ALTER TABLE {place}.order_checks SET SCHEMA {schema};
ALTER TABLE {place}.job_keys SET SCHEMA {schema};
ALTER TABLE {place}.queue_rooms SET SCHEMA {schema};
ALTER TABLE {place}.queue_returns SET SCHEMA {schema};
ALTER TABLE {place}.queue_starts SET SCHEMA {schema};
ALTER TABLE {place}.queue_arrivals SET SCHEMA {schema};
ALTER TABLE {place}.schedules SET SCHEMA {schema};
ALTER TABLE {place}.schedule_ticks SET SCHEMA {schema};
ALTER TABLE {place}.job_logs SET SCHEMA {schema};
ALTER TABLE {place}.task_types SET SCHEMA {schema};
ALTER TABLE {place}.operations SET SCHEMA {schema};
ALTER TABLE {place}.operation_members SET SCHEMA {schema};
ALTER TABLE {place}.schema_version SET SCHEMA {schema};
ALTER VIEW {place}.running_jobs SET SCHEMA {schema};
ALTER VIEW {place}.waiting_jobs SET SCHEMA {schema};
ALTER VIEW {place}.dead_jobs SET SCHEMA {schema};
ALTER VIEW {place}.trashed_jobs SET SCHEMA {schema};
ALTER VIEW {place}.finished_jobs SET SCHEMA {schema};
ALTER VIEW {place}.all_jobs SET SCHEMA {schema};
ALTER SEQUENCE {place}.job_seq SET SCHEMA {schema};
ALTER SEQUENCE {place}.lease_seq SET SCHEMA {schema};
ALTER TYPE {place}.job_status SET SCHEMA {schema};
ALTER FUNCTION {place}.payload_matches SET SCHEMA {schema};
ALTER FUNCTION {place}.priority_band SET SCHEMA {schema};
ALTER FUNCTION {place}.aged_rank SET SCHEMA {schema};
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
