-- name: begin
-- Count the running and waiting jobs of a queue once, and keep the counts from here on.
UPDATE queues
   SET keeps_counts = 1, running = n.running, high = n.high, normal = n.normal, low = n.low
  FROM (SELECT count(*) FILTER (WHERE state = 'running') AS running,
               count(*) FILTER (WHERE state <> 'running' AND priority >= :high) AS high,
               count(*) FILTER (WHERE state <> 'running' AND priority >= :normal AND priority < :high) AS normal,
               count(*) FILTER (WHERE state <> 'running' AND priority < :normal) AS low
          FROM jobs INDEXED BY jobs_listed
         WHERE state IN ('scheduled', 'queued', 'running', 'retrying') AND queue_id = :queue_id) n
 WHERE number = :queue_id

-- name: waiting
-- How many jobs of a queue wait, by band of priority.
SELECT high, normal, low FROM queues WHERE number = ?

-- name: spend
-- Store what is left of a rate's tokens.
UPDATE queues SET tokens = ?, refilled_at = ? WHERE number = ?

-- name: move
-- Add to the counts of a queue.
UPDATE queues SET running = running + ?, high = high + ?, normal = normal + ?, low = low + ? WHERE number = ?

-- name: running
-- How many jobs of a queue run.
SELECT running FROM queues WHERE number = ?
