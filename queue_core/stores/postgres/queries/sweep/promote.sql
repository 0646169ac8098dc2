-- Move due scheduled and retrying jobs to queued. Those that come to wait for an ordering key are only named here: its gate has
-- to be locked first. So are keys that were noted by gates/note.
WITH due AS MATERIALIZED (
    SELECT id, queue_id, ordering_key, ordering_key IS NOT NULL AND NOT holds AS gated FROM jobs
     WHERE rank IS NULL AND status <> 'queued' AND run_at <= now()
     ORDER BY run_at
     LIMIT %(limit)s
       FOR NO KEY UPDATE SKIP LOCKED
), ready AS (
    UPDATE jobs j
       SET status = 'queued', rank = coalesce(j.place, (127 - j.priority)::bigint << 45 | j.seq), updated_at = now()
      FROM due
     WHERE j.id = due.id AND NOT due.gated
    RETURNING j.id, j.queue_id, j.rank
)
SELECT ready.id::text, q.name, ready.rank, NULL FROM ready JOIN queues q ON q.id = ready.queue_id
UNION ALL
SELECT due.id::text, q.name, NULL, due.ordering_key FROM due JOIN queues q ON q.id = due.queue_id WHERE due.gated
UNION ALL
SELECT NULL, q.name, NULL, c.key FROM (SELECT DISTINCT queue_id, key FROM order_checks) c JOIN queues q ON q.id = c.queue_id
 ORDER BY 3
