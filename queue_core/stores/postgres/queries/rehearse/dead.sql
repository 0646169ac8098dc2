-- Write dead jobs of a queue, for the rehearsal of what operators do to them.
INSERT INTO jobs_dead (id, queue_id, seq, priority, run_at, type, payload, retry_count, crashes, max_retries, last_token,
                       signature, kind, created_at)
SELECT i.id, q.id, nextval('job_seq'), 5, now(), 'rehearsal', '{}', 0, 0, 0, 1, 'rehearsal', 'error', now()
  FROM unnest(%(ids)s::uuid[]) AS i (id), queues q
 WHERE q.name = %(queue)s
