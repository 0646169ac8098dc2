-- Move due scheduled and retrying jobs to queued.
WITH due AS MATERIALIZED (
    SELECT id FROM jobs
     WHERE rank IS NULL AND run_at <= now()
     ORDER BY run_at
     LIMIT %(limit)s
       FOR NO KEY UPDATE SKIP LOCKED
), ready AS (
    UPDATE jobs j
       SET status = 'queued', rank = (127 - j.priority)::bigint << 45 | j.seq, updated_at = now()
      FROM due
     WHERE j.id = due.id
    RETURNING j.id, j.queue_id, j.rank
)
SELECT ready.id::text, q.name, ready.rank FROM ready JOIN queues q ON q.id = ready.queue_id ORDER BY ready.rank
