-- Note of a locked operation that was prepared that all was done at once.
WITH told AS (
    UPDATE operation_members SET changed = true WHERE operation = %(number)s
)
UPDATE operations
   SET state = 'done', note = %(note)s, done = total, processed = total, barrier = total,
       started_at = clock_timestamp(), updated_at = clock_timestamp(), finished_at = clock_timestamp()
 WHERE number = %(number)s
