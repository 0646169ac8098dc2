-- Return the numbers of operations, the newest first: older than a number, not ended, of an error signature.
SELECT number FROM operations
 WHERE (%(before)s::int IS NULL OR number < %(before)s::int)
   AND (NOT %(unfinished)s OR finished_at IS NULL)
   AND (%(signature)s::text IS NULL OR signatures @> ARRAY[%(signature)s::text])
 ORDER BY number DESC
 LIMIT %(limit)s
