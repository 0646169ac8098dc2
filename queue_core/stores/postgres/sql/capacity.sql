-- name: starts_lock
-- Lock the starts of a queue: one claim at a time counts what runs. The rate of a new one is full.
INSERT INTO {schema}.queue_starts (queue_id, tokens, refilled_at)
VALUES (%(queue_id)s, %(burst)s, clock_timestamp())
    -- The condition is never true, but the row that it is asked of is locked.
    ON CONFLICT (queue_id) DO UPDATE SET queue_id = excluded.queue_id WHERE false

-- name: known
-- Return which of these jobs are unfinished.
SELECT id::text FROM {schema}.jobs WHERE id = ANY (%(ids)s::uuid[])

-- name: lock
-- Lock the rooms below limits, making those that are missing. From here on other producers of these queues wait.
INSERT INTO {schema}.queue_rooms (queue_id, band, most, room, counted_at)
SELECT queue_id, band, 0, 0, '-infinity'
  FROM unnest(%(queue_id)s::int[], %(band)s::text[]) AS i (queue_id, band)
 ORDER BY queue_id, band COLLATE "C"
    -- The condition is never true, but the row that it is asked of is locked.
    ON CONFLICT (queue_id, band) DO UPDATE SET band = excluded.band WHERE false

-- name: spend
-- Use up room where there is enough of it, less what went back among the waiting; returns which rooms sufficed. A count is good
-- for a minute: processes without these rules may have added jobs since.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(queue_id)s::int[], %(band)s::text[], %(most)s::int[], %(n)s::int[]) AS i (queue_id, band, most, n)
), back AS MATERIALIZED (
    SELECT r.ctid, i.queue_id, i.band, r.n
      FROM input i
     CROSS JOIN LATERAL (SELECT ctid, n FROM {schema}.queue_returns r WHERE r.queue_id = i.queue_id AND r.band = i.band OFFSET 0) r
), noted AS (
    DELETE FROM {schema}.queue_returns WHERE ctid = ANY (ARRAY(SELECT ctid FROM back))
), room AS MATERIALIZED (
    SELECT i.queue_id, i.band, i.n,
           greatest(0, r.room - (SELECT coalesce(sum(b.n), 0) FROM back b WHERE b.queue_id = i.queue_id AND b.band = i.band)) AS room,
           r.most = i.most AND r.counted_at > now() - interval '1 minute' AS fresh
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM {schema}.queue_rooms r WHERE r.queue_id = i.queue_id AND r.band = i.band OFFSET 0) r
), spent AS (
    UPDATE {schema}.queue_rooms r SET room = greatest(0, o.room - o.n)
      FROM room o
     WHERE r.queue_id = o.queue_id AND r.band = o.band
)
SELECT queue_id, band, fresh AND room >= n FROM room

-- name: count
-- Count what waits below limits, no further than to see that there is no room, and write down what is left after the new
-- ones; returns which limits they fit below. What has gone back among the waiting is in the count.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(queue_id)s::int[], %(band)s::text[], %(most)s::int[], %(n)s::int[]) AS i (queue_id, band, most, n)
), counted AS MATERIALIZED (
    SELECT i.*, (SELECT count(*)
                   FROM (SELECT FROM (SELECT id, priority FROM {schema}.jobs j WHERE j.queue_id = i.queue_id AND j.rank IS NOT NULL
                                      UNION ALL
                                      SELECT id, priority FROM {schema}.jobs j
                                       WHERE j.queue_id = i.queue_id AND j.rank IS NULL AND j.status <> 'queued'
                                      UNION ALL
                                      SELECT id, priority FROM {schema}.jobs j
                                       WHERE j.queue_id = i.queue_id AND j.ordering_key IS NOT NULL AND NOT j.holds AND j.status = 'queued'
                                     ) AS j
                          WHERE (i.band = '' OR {schema}.priority_band(j.priority) = i.band)
                            AND (j.id IN (SELECT id FROM {schema}.leases)) IS NOT TRUE
                          LIMIT i.most + 1) AS found)::int AS waiting
      FROM input i
), noted AS (
    DELETE FROM {schema}.queue_returns
     WHERE ctid = ANY (ARRAY(SELECT r.ctid
                               FROM input i
                              CROSS JOIN LATERAL (SELECT ctid FROM {schema}.queue_returns r
                                                   WHERE r.queue_id = i.queue_id AND r.band = i.band OFFSET 0) r))
), stored AS (
    UPDATE {schema}.queue_rooms r SET most = c.most, room = greatest(0, c.most - c.waiting - c.n), counted_at = now()
      FROM counted c
     WHERE r.queue_id = c.queue_id AND r.band = c.band
)
SELECT queue_id, band, waiting + n <= most FROM counted

-- name: starts_read
-- Return which jobs of a queue run: of those that did, and of what was claimed under the same lock since then; also the token before
-- which the next count need not look again, and the rate's tokens as of how many seconds ago. A claim that had the lock before is seen.
SELECT ARRAY(SELECT l.id
               FROM unnest(%(known)s::uuid[]) AS k (id)
              CROSS JOIN LATERAL (SELECT id FROM {schema}.leases WHERE id = k.id AND queue_id = s.queue_id AND token <= %(above)s OFFSET 0) l
              WHERE (SELECT true FROM {schema}.jobs j WHERE j.id = l.id)
             UNION ALL
             SELECT l.id FROM {schema}.leases l
              WHERE l.queue_id = s.queue_id AND l.counted AND l.token > %(above)s AND (SELECT true FROM {schema}.jobs j WHERE j.id = l.id))::text[],
       coalesce((SELECT epoch FROM {schema}.lease_epoch_live)::bigint << 40 | (SELECT last_value - (NOT is_called)::int FROM {schema}.lease_seq), %(above)s),
       s.tokens, extract(epoch FROM c.now - s.refilled_at)::float8, extract(epoch FROM c.now)::float8
  FROM {schema}.queue_starts s, (SELECT clock_timestamp() AS now OFFSET 0) c
 WHERE s.queue_id = %(queue_id)s

-- name: starts_spend
-- Write down the tokens that a claim has left.
UPDATE {schema}.queue_starts SET tokens = %(tokens)s, refilled_at = to_timestamp(%(at)s) WHERE queue_id = %(queue_id)s

-- name: starts_running
-- Return how many jobs of a queue run, of all claimers, and some of them, by a read of all leases.
SELECT count(*)::int, coalesce((array_agg(l.id::text))[:%(some)s], '{}')
  FROM {schema}.leases l
 WHERE l.queue_id = %(queue_id)s AND (SELECT true FROM {schema}.jobs j WHERE j.id = l.id)
