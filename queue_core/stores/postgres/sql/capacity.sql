-- name: rate_lock
-- Lock the rate of a queue: one claim at a time counts what runs. That of a new queue has all its tokens.
INSERT INTO {schema}.queue_rates (queue_id, tokens, refilled_at)
VALUES (%(queue_id)s, %(burst)s, clock_timestamp())
    -- The condition is never true, but the row that it is asked of is locked.
    ON CONFLICT (queue_id) DO UPDATE SET queue_id = excluded.queue_id WHERE false

-- name: unfinished
-- Return which of these jobs are unfinished.
SELECT id::text FROM {schema}.jobs WHERE id = ANY (%(ids)s::uuid[])

-- name: lock
-- Lock the capacities of queues with limits, creating missing ones. From here on other producers of these queues wait.
INSERT INTO {schema}.queue_capacity (queue_id, band, capacity, free, counted_at)
SELECT queue_id, band, 0, 0, '-infinity'
  FROM unnest(%(queue_id)s::int[], %(band)s::text[]) AS i (queue_id, band)
 ORDER BY queue_id, band COLLATE "C"
    -- The condition is never true, but the row that it is asked of is locked.
    ON CONFLICT (queue_id, band) DO UPDATE SET band = excluded.band WHERE false

-- name: spend
-- Use capacity where enough of it is free, less what was requeued; returns which capacities sufficed. A count is good
-- for a minute: processes without these rules may have added jobs since.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(queue_id)s::int[], %(band)s::text[], %(capacity)s::int[], %(n)s::int[]) AS i (queue_id, band, capacity, n)
), requeued AS MATERIALIZED (
    SELECT r.ctid, i.queue_id, i.band, r.n
      FROM input i
     CROSS JOIN LATERAL (SELECT ctid, n FROM {schema}.capacity_requeued r WHERE r.queue_id = i.queue_id AND r.band = i.band OFFSET 0) r
), consumed AS (
    DELETE FROM {schema}.capacity_requeued WHERE ctid = ANY (ARRAY(SELECT ctid FROM requeued))
), available AS MATERIALIZED (
    SELECT i.queue_id, i.band, i.n,
           greatest(0, r.free - (SELECT coalesce(sum(b.n), 0) FROM requeued b WHERE b.queue_id = i.queue_id AND b.band = i.band)) AS free,
           r.capacity = i.capacity AND r.counted_at > now() - interval '1 minute' AS fresh
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM {schema}.queue_capacity r WHERE r.queue_id = i.queue_id AND r.band = i.band OFFSET 0) r
), spent AS (
    UPDATE {schema}.queue_capacity r SET free = greatest(0, o.free - o.n)
      FROM available o
     WHERE r.queue_id = o.queue_id AND r.band = o.band
)
SELECT queue_id, band, fresh AND free >= n FROM available

-- name: count
-- Count what waits below limits, no further than to see that nothing is free, and store what is left after the new
-- ones; returns which limits they fit below. What was requeued is in the count.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(queue_id)s::int[], %(band)s::text[], %(capacity)s::int[], %(n)s::int[]) AS i (queue_id, band, capacity, n)
), measured AS MATERIALIZED (
    SELECT i.*, (SELECT count(*)
                   FROM (SELECT FROM (SELECT id, priority FROM {schema}.jobs j WHERE j.queue_id = i.queue_id AND j.rank IS NOT NULL
                                      UNION ALL
                                      SELECT id, priority FROM {schema}.jobs j
                                       WHERE j.queue_id = i.queue_id AND j.rank IS NULL AND j.status <> 'queued'
                                      UNION ALL
                                      SELECT id, priority FROM {schema}.jobs j
                                       WHERE j.queue_id = i.queue_id AND j.ordering_key IS NOT NULL AND NOT j.admitted AND j.status = 'queued'
                                     ) AS j
                          WHERE (i.band = '' OR {schema}.priority_band(j.priority) = i.band)
                            AND (j.id IN (SELECT id FROM {schema}.leases)) IS NOT TRUE
                          LIMIT i.capacity + 1) AS found)::int AS waiting
      FROM input i
), consumed AS (
    DELETE FROM {schema}.capacity_requeued
     WHERE ctid = ANY (ARRAY(SELECT r.ctid
                               FROM input i
                              CROSS JOIN LATERAL (SELECT ctid FROM {schema}.capacity_requeued r
                                                   WHERE r.queue_id = i.queue_id AND r.band = i.band OFFSET 0) r))
), stored AS (
    UPDATE {schema}.queue_capacity r SET capacity = c.capacity, free = greatest(0, c.capacity - c.waiting - c.n), counted_at = now()
      FROM measured c
     WHERE r.queue_id = c.queue_id AND r.band = c.band
)
SELECT queue_id, band, waiting + n <= capacity FROM measured

-- name: running
-- Return which jobs of a queue run: of those that did, and of what was claimed under the same lock since then; also the token before
-- which the next count need not look again, and the rate's tokens as of how many seconds ago. A claim that had the lock before is seen.
-- What is left of `room` is kept for the claim in this transaction, which may travel in the same message.
SELECT r.ids,
       coalesce((SELECT epoch FROM {schema}.lease_epoch_live)::bigint << 40 | (SELECT last_value - (NOT is_called)::int FROM {schema}.lease_seq), %(above)s),
       s.tokens, extract(epoch FROM c.now - s.refilled_at)::float8, extract(epoch FROM c.now)::float8,
       set_config('jobs.room', greatest(0, %(room)s::int - cardinality(r.ids))::text, true)
  FROM {schema}.queue_rates s, (SELECT clock_timestamp() AS now OFFSET 0) c
 CROSS JOIN LATERAL (
       SELECT ARRAY(SELECT l.id
                      FROM unnest(%(running)s::uuid[]) AS k (id)
                     CROSS JOIN LATERAL (SELECT id FROM {schema}.leases WHERE id = k.id AND queue_id = s.queue_id AND token <= %(above)s OFFSET 0) l
                     WHERE (SELECT true FROM {schema}.jobs j WHERE j.id = l.id)
                    UNION ALL
                    SELECT l.id FROM {schema}.leases l
                     WHERE l.queue_id = s.queue_id AND l.limited AND l.token > %(above)s
                       AND (SELECT true FROM {schema}.jobs j WHERE j.id = l.id))::text[] AS ids
       OFFSET 0) r
 WHERE s.queue_id = %(queue_id)s

-- name: rate_spend
-- Store the tokens that a claim has left.
UPDATE {schema}.queue_rates SET tokens = %(tokens)s, refilled_at = to_timestamp(%(at)s) WHERE queue_id = %(queue_id)s

-- name: running_scan
-- Return how many jobs of a queue run, of all claimers, and some of them, by a read of all leases.
SELECT count(*)::int, coalesce((array_agg(l.id::text))[:%(some)s], '{}')
  FROM {schema}.leases l
 WHERE l.queue_id = %(queue_id)s AND (SELECT true FROM {schema}.jobs j WHERE j.id = l.id)
