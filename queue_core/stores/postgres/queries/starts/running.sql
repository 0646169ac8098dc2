-- Return how many jobs of a queue run, whoever claimed them, and some of them, by a look at all leases.
SELECT count(*)::int, coalesce((array_agg(l.id::text))[:%(some)s], '{}')
  FROM leases l
 WHERE l.queue_id = %(queue_id)s AND (SELECT true FROM jobs j WHERE j.id = l.id)
