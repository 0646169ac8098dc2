-- name: blocks
-- Return how many blocks a table has.
SELECT pg_relation_size(('{schema}.' || %(table)s)::regclass) / current_setting('block_size')::int
