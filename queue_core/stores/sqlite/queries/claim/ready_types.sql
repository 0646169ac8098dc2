-- The types of which a queue has ready jobs, stepping from one to the next in the index.
WITH RECURSIVE ready (type) AS (
    SELECT min(type) FROM jobs INDEXED BY jobs_ready WHERE queue_id = :queue_id AND rank IS NOT NULL
    UNION ALL
    SELECT (SELECT min(j.type) FROM jobs j INDEXED BY jobs_ready
             WHERE j.queue_id = :queue_id AND j.type > ready.type AND j.rank IS NOT NULL)
      FROM ready WHERE ready.type IS NOT NULL
)
SELECT type FROM ready WHERE type IS NOT NULL
