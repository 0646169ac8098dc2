-- name: ending
-- Prepare a handler's transaction for its last statements. They go by their indexes, as on the hot path's own connections:
-- statistics from when a table was nearly empty lead away from it. And a client that sleeps before the commit loses the connection:
-- the job's row is locked by then, and could not be given to another worker. Times are milliseconds. Returns last whether the history
-- has the day in which the job ends, which is that of the transaction's start.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true),
       set_config('idle_in_transaction_session_timeout', %(silent)s::text, true), set_config('lock_timeout', %(limit)s::text, true),
       set_config('statement_timeout', %(limit)s::text, true), set_config('array_nulls', 'on', true),
       to_regclass('{schema}.job_history_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NOT NULL

-- name: discard
-- Forget everything that a handler may have left in its session: settings, temporary tables, locks, listens.
DISCARD ALL

-- name: patience
-- Let the statements that follow in this transaction wait for a lock so many milliseconds at most, or as long as before where that
-- is shorter; return what was set before. 0 is no bound. A pooler's session keeps nothing of it.
SELECT set_config('lock_timeout', CASE WHEN ms BETWEEN 1 AND %(limit)s::int THEN given ELSE %(limit)s::int::text END, true), given
  FROM (SELECT given, extract(epoch FROM given::interval) * 1000 AS ms
          FROM (SELECT current_setting('lock_timeout') AS given OFFSET 0) c
        OFFSET 0) g

-- name: patience_given
-- Put back what was set before.
SELECT set_config('lock_timeout', %(given)s::text, true)
