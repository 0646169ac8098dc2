-- Whether all partitions of the history are there, or somebody is making them now, under the lock that make_job_history takes.
SELECT NOT EXISTS (SELECT FROM generate_series(-1, 7) AS n
                    WHERE to_regclass('job_history_' || to_char((now() AT TIME ZONE 'UTC')::date + n, 'YYYYMMDD')) IS NULL)
       OR EXISTS (SELECT FROM pg_locks
                   WHERE locktype = 'advisory' AND granted AND classid::bigint << 32 | objid::bigint = 5812640217730002
                         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
