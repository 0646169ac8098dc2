-- Lock the rooms below limits, making those that are missing. From here on other producers of these queues wait.
INSERT INTO queue_rooms (queue_id, band, most, room, counted_at)
SELECT queue_id, band, 0, 0, '-infinity'
  FROM unnest(%(queue_id)s::int[], %(band)s::text[]) AS i (queue_id, band)
 ORDER BY queue_id, band COLLATE "C"
    -- The condition is never true, but the row that it is asked of is locked.
    ON CONFLICT (queue_id, band) DO UPDATE SET band = excluded.band WHERE false
