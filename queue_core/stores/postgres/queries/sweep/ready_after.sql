-- Return a page of a queue's ready jobs in order, for a rebuild of the ready set.
SELECT j.id::text, j.rank
  FROM jobs j
 WHERE j.queue_id = %(queue_id)s AND j.rank > %(rank)s
   AND coalesce((SELECT false FROM leases l WHERE l.id = j.id), true)
 ORDER BY j.rank
 LIMIT %(limit)s
