-- Lock an operation; the next statement sees what was done by who had it locked before. Returns the seconds until its rate lets
-- the next step be taken. `next_at` may be -infinity, from which PostgreSQL before 17 subtracts nothing.
SELECT greatest(0, extract(epoch FROM greatest(next_at, c.now) - c.now))::float8
  FROM operations, (SELECT clock_timestamp() AS now OFFSET 0) c
 WHERE number = %(number)s FOR NO KEY UPDATE OF operations
