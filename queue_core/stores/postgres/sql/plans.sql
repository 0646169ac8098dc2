-- name: days
-- Make the history's partitions from yesterday to a week ahead; returns how many were missing. Where none is, nothing is locked.
SELECT CASE WHEN EXISTS (SELECT FROM generate_series(-1, 7) AS n
                          WHERE to_regclass('{schema}.job_history_' || to_char((now() AT TIME ZONE 'UTC')::date + n, 'YYYYMMDD')) IS NULL)
            THEN {schema}.make_job_history(7) ELSE 0 END
