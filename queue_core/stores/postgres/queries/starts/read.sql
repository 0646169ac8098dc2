-- Return how many jobs of a queue run, and the rate's tokens as of how many seconds ago. A claim that had the lock before is in
-- the count.
SELECT (SELECT count(*) FROM leases l WHERE l.queue_id = s.queue_id AND EXISTS (SELECT FROM jobs j WHERE j.id = l.id)),
       s.tokens, extract(epoch FROM c.now - s.refilled_at)::float8, extract(epoch FROM c.now)::float8
  FROM queue_starts s, (SELECT clock_timestamp() AS now OFFSET 0) c
 WHERE s.queue_id = %(queue_id)s
