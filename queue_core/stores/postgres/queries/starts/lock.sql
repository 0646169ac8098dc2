-- Lock the starts of a queue: one claim at a time counts what runs. The rate of a new one is full.
INSERT INTO queue_starts (queue_id, tokens, refilled_at)
VALUES (%(queue_id)s, %(burst)s, clock_timestamp())
    -- The condition is never true, but the row that it is asked of is locked.
    ON CONFLICT (queue_id) DO UPDATE SET queue_id = excluded.queue_id WHERE false
