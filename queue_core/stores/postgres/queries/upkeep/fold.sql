-- Fold appended tallies into the totals, the minutes and the minutes of each signature.
WITH taken AS MATERIALIZED (
    DELETE FROM tally_deltas
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM tally_deltas
                        WHERE ctid BETWEEN %(first_place)s::tid AND %(last_place)s::tid LIMIT %(limit)s))
    RETURNING *
), totals AS (
    INSERT INTO tallies AS t (queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us)
    SELECT queue_id, type, outcome, wait_bucket, run_bucket, sum(n), sum(wait_us), sum(run_us)
      FROM taken GROUP BY 1, 2, 3, 4, 5
        ON CONFLICT (queue_id, type, outcome, wait_bucket, run_bucket) DO UPDATE
       SET n = t.n + excluded.n, wait_us = t.wait_us + excluded.wait_us, run_us = t.run_us + excluded.run_us
), series AS (
    INSERT INTO minutes AS m (minute, queue_id, outcome, n)
    SELECT date_trunc('minute', at), queue_id, outcome, sum(n) FROM taken GROUP BY 1, 2, 3
        ON CONFLICT (minute, queue_id, outcome) DO UPDATE SET n = m.n + excluded.n
), growth AS (
    INSERT INTO signature_minutes AS s (minute, signature, queue_id, n)
    SELECT date_trunc('minute', at), signature, queue_id, sum(n) FROM taken WHERE signature <> '' GROUP BY 1, 2, 3
        ON CONFLICT (minute, signature, queue_id) DO UPDATE SET n = s.n + excluded.n
)
SELECT count(*) FROM taken
