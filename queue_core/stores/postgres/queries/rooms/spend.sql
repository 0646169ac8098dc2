-- Use up room where there is enough of it, less what went back among the waiting; returns which rooms sufficed. A count is good
-- for a minute: processes without these rules may have added jobs since.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(%(queue_id)s::int[], %(band)s::text[], %(most)s::int[], %(n)s::int[]) AS i (queue_id, band, most, n)
), back AS MATERIALIZED (
    SELECT r.ctid, i.queue_id, i.band, r.n
      FROM input i
     CROSS JOIN LATERAL (SELECT ctid, n FROM queue_returns r WHERE r.queue_id = i.queue_id AND r.band = i.band OFFSET 0) r
), noted AS (
    DELETE FROM queue_returns WHERE ctid = ANY (ARRAY(SELECT ctid FROM back))
), room AS MATERIALIZED (
    SELECT i.queue_id, i.band, i.n,
           greatest(0, r.room - (SELECT coalesce(sum(b.n), 0) FROM back b WHERE b.queue_id = i.queue_id AND b.band = i.band)) AS room,
           r.most = i.most AND r.counted_at > now() - interval '1 minute' AS fresh
      FROM input i
     CROSS JOIN LATERAL (SELECT * FROM queue_rooms r WHERE r.queue_id = i.queue_id AND r.band = i.band OFFSET 0) r
), spent AS (
    UPDATE queue_rooms r SET room = greatest(0, o.room - o.n)
      FROM room o
     WHERE r.queue_id = o.queue_id AND r.band = o.band
)
SELECT queue_id, band, fresh AND room >= n FROM room
