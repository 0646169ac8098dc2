-- Let a locked operation that was stopped go on to its end, without its threshold.
UPDATE operations
   SET state = CASE WHEN done = total THEN 'done' ELSE 'running' END, note = %(note)s, barrier = total, stop_percent = NULL,
       updated_at = clock_timestamp(), finished_at = CASE WHEN done = total THEN clock_timestamp() END
 WHERE number = %(number)s
