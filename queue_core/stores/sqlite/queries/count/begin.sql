-- Count the running and waiting jobs of a queue once, and keep the counts from here on.
UPDATE queues
   SET counted = 1, running = n.running, high = n.high, normal = n.normal, low = n.low
  FROM (SELECT count(*) FILTER (WHERE place = 'running') AS running,
               count(*) FILTER (WHERE place <> 'running' AND priority >= :high) AS high,
               count(*) FILTER (WHERE place <> 'running' AND priority >= :normal AND priority < :high) AS normal,
               count(*) FILTER (WHERE place <> 'running' AND priority < :normal) AS low
          FROM jobs INDEXED BY jobs_listed
         WHERE place IN ('scheduled', 'queued', 'running', 'retrying') AND queue_id = :queue_id) n
 WHERE number = :queue_id
