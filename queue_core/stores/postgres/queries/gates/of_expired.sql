-- Return dead jobs that are over their retention and still hold their ordering keys, a batch.
SELECT d.id::text, q.name, d.ordering_key
  FROM jobs_dead d JOIN queues q ON q.id = d.queue_id
 WHERE d.holds AND d.trashed_at IS NULL AND d.died_at < now() - make_interval(secs => %(seconds)s)
 LIMIT %(limit)s
