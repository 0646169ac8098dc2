-- Move a locked operation to another state.
UPDATE operations
   SET state = %(state)s, note = %(note)s, updated_at = clock_timestamp(),
       finished_at = CASE WHEN %(ended)s THEN clock_timestamp() END
 WHERE number = %(number)s
