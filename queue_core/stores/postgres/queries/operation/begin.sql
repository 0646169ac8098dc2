-- Let a locked operation that was prepared run, with a barrier behind its canary; one without members is done.
UPDATE operations
   SET state = CASE WHEN total = 0 THEN 'done' ELSE 'running' END, note = %(note)s,
       barrier = CASE WHEN canary > 0 AND canary < total THEN canary ELSE total END,
       started_at = clock_timestamp(), updated_at = clock_timestamp(), finished_at = CASE WHEN total = 0 THEN clock_timestamp() END
 WHERE number = %(number)s
RETURNING pg_notify('queue_core_due', '')
