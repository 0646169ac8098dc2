-- Return which jobs of a queue run: of those that did, and of what was claimed under the same lock since then; also the token before
-- which the next count need not look again, and the rate's tokens as of how many seconds ago. A claim that had the lock before is seen.
SELECT ARRAY(SELECT l.id
               FROM unnest(%(known)s::uuid[]) AS k (id)
              CROSS JOIN LATERAL (SELECT id FROM leases WHERE id = k.id AND queue_id = s.queue_id AND token <= %(above)s OFFSET 0) l
              WHERE (SELECT true FROM jobs j WHERE j.id = l.id)
             UNION ALL
             SELECT l.id FROM leases l
              WHERE l.queue_id = s.queue_id AND l.counted AND l.token > %(above)s AND (SELECT true FROM jobs j WHERE j.id = l.id))::text[],
       coalesce((SELECT epoch FROM lease_epoch_live)::bigint << 40 | (SELECT last_value - (NOT is_called)::int FROM lease_seq), %(above)s),
       s.tokens, extract(epoch FROM c.now - s.refilled_at)::float8, extract(epoch FROM c.now)::float8
  FROM queue_starts s, (SELECT clock_timestamp() AS now OFFSET 0) c
 WHERE s.queue_id = %(queue_id)s
