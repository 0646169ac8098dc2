-- Return which of these jobs are claimable by a live worker: a worker that lacks their types gives them back.
-- '' is announced by who takes every type.
WITH announced AS MATERIALIZED (
    SELECT DISTINCT unnest(w.types) AS type
      FROM workers w JOIN queues q ON q.name = ANY (w.queues)
     WHERE q.id = %(queue_id)s AND w.heartbeat_at > now() - make_interval(secs => 3 * w.interval_s)
)
SELECT j.id::text, j.rank
  FROM jobs j
 WHERE j.id = ANY (%(ids)s::uuid[])
   AND j.queue_id = %(queue_id)s
   AND j.status = 'queued'
   AND (j.ordering_key IS NULL OR j.holds)
   AND (j.type IN (SELECT type FROM announced) OR '' IN (SELECT type FROM announced))
   AND coalesce((SELECT false FROM leases l WHERE l.id = j.id), true)
   AND EXISTS (SELECT FROM queues q WHERE q.id = %(queue_id)s AND q.paused_at IS NULL)
 ORDER BY j.rank
