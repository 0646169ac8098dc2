-- Lock an operation; the next statement sees what was done by who had it locked before. Returns the seconds until its rate lets
-- the next step be taken.
SELECT greatest(0, extract(epoch FROM next_at - clock_timestamp()))::float8
  FROM operations WHERE number = %(number)s FOR NO KEY UPDATE
