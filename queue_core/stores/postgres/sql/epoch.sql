-- name: place
-- Return where tokens are given out: a server, a database of it, and the table of the live epoch, one of which is another one in every
-- copy that is made by statements; and whether the live epoch, if there is one, was written here.
SELECT p.place,
       NOT EXISTS (SELECT FROM {schema}.lease_epoch_live)
       OR EXISTS (SELECT FROM {schema}.leaders l WHERE l.duty = 'tokens' AND l.worker = p.place)
  FROM (SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || d.oid || '/' || '{schema}.lease_epoch_live'::regclass::oid AS place
          FROM pg_database d WHERE d.datname = current_database()) p

-- name: lock
-- Let one connection at a time raise the epoch.
SELECT epoch FROM {schema}.lease_epoch FOR UPDATE

-- name: raise
-- Raise the lease epoch durably where its live copy is missing, or of another place than this one (the empty text: not known); both
-- become visible with the same, synchronous commit. Also where the server's default is asynchronous: an epoch that a crash takes back
-- would come twice. It is at least the days since 2025, the first one, too, for a database that was restored knows nothing of the
-- epochs that its predecessor has come to; and the sequence goes on at the microseconds of the day, of which there are more than
-- tokens, for it may be restored again on that day, where this role may set it. Tokens stay below 2^53, which readers of JSON need,
-- until 2047.
WITH firm AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'on', true)
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp() - timestamptz '2025-01-01 00:00:00+00') * 1000000)::bigint AS us
), raised AS (
    UPDATE {schema}.lease_epoch e SET epoch = greatest(e.epoch + 1, least(us / 86400000000, 4194303)::int)
      FROM clock
     WHERE NOT EXISTS (SELECT FROM {schema}.lease_epoch_live)
        OR %(place)s <> '' AND NOT EXISTS (SELECT FROM {schema}.leaders l WHERE l.duty = 'tokens' AND l.worker = %(place)s)
    RETURNING e.epoch, CASE WHEN has_sequence_privilege('{schema}.lease_seq', 'UPDATE')
                            THEN setval('{schema}.lease_seq', greatest(nextval('{schema}.lease_seq'), mod(us, 86400000000))) END
), placed AS (
    INSERT INTO {schema}.leaders (duty, worker, expires_at) SELECT 'tokens', %(place)s, 'infinity' FROM raised
        ON CONFLICT (duty) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at
)
INSERT INTO {schema}.lease_epoch_live (epoch) SELECT epoch FROM raised, firm ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch
