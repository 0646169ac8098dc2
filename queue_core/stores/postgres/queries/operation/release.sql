-- Let a running operation go on behind its canary.
UPDATE operations SET barrier = total, updated_at = clock_timestamp()
 WHERE number = %(number)s AND state = 'running' AND barrier < total
RETURNING number
