-- Add to the totals of one kind of outcome.
INSERT INTO tallies (queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET n = n + excluded.n, wait_us = wait_us + excluded.wait_us, run_us = run_us + excluded.run_us
