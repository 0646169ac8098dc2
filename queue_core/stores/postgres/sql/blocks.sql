-- name: table_size
-- Return how many blocks a table has, and about how many rows in it wait to be vacuumed away.
SELECT pg_relation_size(t.id) / current_setting('block_size')::int, pg_stat_get_dead_tuples(t.id)
  FROM (SELECT ('{schema}.' || %(table)s)::regclass AS id) t

-- name: occupied_leases
-- Return whether there is any lease in each of these parts of the table, in order.
SELECT coalesce((SELECT true FROM {schema}.leases WHERE ctid BETWEEN part.first_row AND part.last_row LIMIT 1), false)
  FROM unnest(%(first_rows)s::tid[], %(last_rows)s::tid[]) WITH ORDINALITY AS part (first_row, last_row, number)
 ORDER BY part.number

-- name: occupied_tally_deltas
-- Return whether there is any tally that is not folded in each of these parts of the table, in order.
SELECT coalesce((SELECT true FROM {schema}.tally_deltas WHERE ctid BETWEEN part.first_row AND part.last_row LIMIT 1), false)
  FROM unnest(%(first_rows)s::tid[], %(last_rows)s::tid[]) WITH ORDINALITY AS part (first_row, last_row, number)
 ORDER BY part.number
