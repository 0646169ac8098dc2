-- name: ending
-- Prepare a handler's transaction for its last statements. They go by their indexes, as on the hot path's own connections:
-- statistics from when a table was nearly empty lead away from it. And a client that sleeps before the commit loses the connection:
-- the job's row is locked by then, and could not be given to another worker. Times are milliseconds.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true),
       set_config('idle_in_transaction_session_timeout', %(silent)s::text, true), set_config('lock_timeout', %(limit)s::text, true),
       set_config('statement_timeout', %(limit)s::text, true), set_config('array_nulls', 'on', true)

-- name: discard
-- Forget everything that a handler may have left in its session: settings, temporary tables, locks, listens.
DISCARD ALL
