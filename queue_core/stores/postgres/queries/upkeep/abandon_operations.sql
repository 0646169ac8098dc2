-- Cancel operations that are still preparing so long after their last change: their authors are gone.
UPDATE operations SET state = 'cancelled', note = %(note)s, updated_at = clock_timestamp(), finished_at = clock_timestamp()
 WHERE number = ANY (ARRAY(SELECT number FROM operations
                            WHERE finished_at IS NULL AND state = 'preparing'
                              AND updated_at < now() - make_interval(secs => %(seconds)s)
                              FOR NO KEY UPDATE SKIP LOCKED))
RETURNING number
