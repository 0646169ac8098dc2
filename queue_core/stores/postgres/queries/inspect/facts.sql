-- What doctor asks of the server, as one row of names and values; needs no schema.
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::int AS version_number,
       current_setting('fsync')::bool AS fsync,
       current_setting('full_page_writes')::bool AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS read_only,
       current_setting('max_connections')::int AS max_connections,
       (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
       (SELECT extract(epoch FROM now() - min(xact_start))::float8 FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend') AS oldest_transaction_s,
       (SELECT pid FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
           AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1) AS oldest_transaction_pid,
       (SELECT count(*)::int FROM pg_prepared_xacts WHERE database = current_database()) AS prepared_transactions,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', h.kind, 'name', h.name, 'transactions', age(h.xmin))
                                  ORDER BY age(h.xmin) DESC), '[]')
          FROM (SELECT 'replication slot' AS kind, slot_name::text AS name, xmin FROM pg_replication_slots
                UNION ALL
                SELECT 'standby', coalesce(nullif(application_name, ''), host(client_addr), pid::text), backend_xmin
                  FROM pg_stat_replication) h
         WHERE h.xmin IS NOT NULL) AS held_snapshots,
       (SELECT coalesce(array_agg(i.indexrelid::regclass::text ORDER BY 1), '{}') FROM pg_index i
          JOIN pg_class c ON c.oid = i.indrelid
         WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace) AS invalid_indexes,
       (SELECT max(to_date(right(c.relname, 8), 'YYYYMMDD')) - (now() AT TIME ZONE 'UTC')::date FROM pg_inherits h
          JOIN pg_class c ON c.oid = h.inhrelid WHERE h.inhparent = to_regclass('job_history')) AS partitions_ahead_days,
       (SELECT jsonb_object_agg(s.relname, jsonb_build_object(
                 'live', s.n_live_tup, 'dead', s.n_dead_tup, 'bytes', pg_total_relation_size(s.relid),
                 'vacuumed_s', extract(epoch FROM now() - greatest(s.last_vacuum, s.last_autovacuum))::float8))
          FROM pg_stat_user_tables s
         WHERE s.schemaname = current_schema()
           AND s.relname IN ('jobs', 'leases', 'jobs_dead', 'tally_deltas', 'workers')) AS tables,
       pg_backend_pid() AS backend_pid
