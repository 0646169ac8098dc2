-- Return which of these jobs are claimable by a live worker: a worker that lacks their types gives them back.
SELECT j.id::text, j.rank
  FROM jobs j
 WHERE j.id = ANY (%(ids)s::uuid[])
   AND j.queue_id = %(queue_id)s
   AND j.status = 'queued'
   AND j.type IN (SELECT unnest(w.types) FROM workers w JOIN queues q ON q.name = ANY (w.queues)
                   WHERE q.id = %(queue_id)s AND w.heartbeat_at > now() - make_interval(secs => 3 * w.interval_s))
   AND NOT EXISTS (SELECT FROM leases l WHERE l.id = j.id)
   AND EXISTS (SELECT FROM queues q WHERE q.id = %(queue_id)s AND q.paused_at IS NULL)
 ORDER BY j.rank
