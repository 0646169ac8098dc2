-- Count members of a locked operation behind those that are done, tell which of them were changed, and end it behind the last one.
-- Returns the seconds until its rate lets the next step be taken.
WITH told AS (
    UPDATE operation_members SET changed = true
     WHERE operation = %(number)s AND place > %(done)s::int AND place <= %(done)s::int + %(count)s::int AND job_id = ANY (%(changed)s::text[])
)
UPDATE operations
   SET done = done + %(count)s::int, processed = processed + %(processed)s::int, errored = errored + %(errored)s::int,
       skipped = skipped + %(count)s::int - %(processed)s::int - %(errored)s::int, note = coalesce(%(note)s, note),
       next_at = CASE WHEN rate IS NULL OR %(errored)s::int > 0 THEN next_at
                      ELSE greatest(next_at, clock_timestamp()) + make_interval(secs => %(count)s::int / rate) END,
       state = CASE WHEN done + %(count)s::int = total THEN 'done' ELSE state END,
       finished_at = CASE WHEN done + %(count)s::int = total THEN clock_timestamp() END, updated_at = clock_timestamp()
 WHERE number = %(number)s
-- Not from -infinity, from which PostgreSQL before 17 subtracts nothing.
RETURNING CASE WHEN rate IS NULL THEN 0
               ELSE greatest(0, extract(epoch FROM greatest(next_at, updated_at) - clock_timestamp())) END::float8
