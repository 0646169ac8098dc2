-- Days that another session has made while this one waited are read from the catalog: names that were looked for before are remembered as
-- missing, and to wait for an advisory lock does not change that.
CREATE OR REPLACE FUNCTION make_job_history(days_ahead int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    day date;
    name text;
    made int := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(5812640217730002);
    FOR day IN SELECT today + n FROM generate_series(-1, days_ahead) AS n LOOP
        name := 'job_history_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN EXISTS (SELECT FROM pg_class AS there JOIN pg_class AS parent ON parent.relnamespace = there.relnamespace
                               WHERE parent.oid = 'job_history'::regclass AND there.relname = name);
        EXECUTE format('CREATE TABLE %I (LIKE job_history INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE job_history ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
                       to_char(day, 'YYYY-MM-DD') || ' 00:00+00', to_char(day + 1, 'YYYY-MM-DD') || ' 00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
