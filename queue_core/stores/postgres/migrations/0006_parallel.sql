-- It catches errors, which begins a subtransaction, and before PostgreSQL 17 no parallel plan may do that: on a large table every
-- filter of payloads was refused.
ALTER FUNCTION {schema}.payload_matches PARALLEL UNSAFE;

-- Read by nothing.
DROP INDEX {schema}.job_attempts_finished;
