-- Count what waits below limits, no further than to see that there is no room, and write down what is left after the new
-- ones; returns which limits they fit below. What has gone back among the waiting is in the count.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(queue_id)s::int[], %(band)s::text[], %(most)s::int[], %(n)s::int[]) AS i (queue_id, band, most, n)
), counted AS MATERIALIZED (
    SELECT i.*, (SELECT count(*)
                   FROM (SELECT FROM (SELECT id, priority FROM jobs j WHERE j.queue_id = i.queue_id AND j.rank IS NOT NULL
                                      UNION ALL
                                      SELECT id, priority FROM jobs j
                                       WHERE j.queue_id = i.queue_id AND j.rank IS NULL AND j.status <> 'queued'
                                      UNION ALL
                                      SELECT id, priority FROM jobs j
                                       WHERE j.queue_id = i.queue_id AND j.ordering_key IS NOT NULL AND NOT j.holds AND j.status = 'queued'
                                     ) AS j
                          WHERE (i.band = '' OR priority_band(j.priority) = i.band)
                            AND (j.id IN (SELECT id FROM leases)) IS NOT TRUE
                          LIMIT i.most + 1) AS found)::int AS waiting
      FROM input i
), noted AS (
    DELETE FROM queue_returns
     WHERE ctid = ANY (ARRAY(SELECT r.ctid
                               FROM input i
                              CROSS JOIN LATERAL (SELECT ctid FROM queue_returns r
                                                   WHERE r.queue_id = i.queue_id AND r.band = i.band OFFSET 0) r))
), stored AS (
    UPDATE queue_rooms r SET most = c.most, room = greatest(0, c.most - c.waiting - c.n), counted_at = now()
      FROM counted c
     WHERE r.queue_id = c.queue_id AND r.band = c.band
)
SELECT queue_id, band, waiting + n <= most FROM counted
