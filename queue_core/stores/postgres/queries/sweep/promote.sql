-- Move scheduled and retrying jobs to queued that are due, and were not long ago. Those that come to wait for an ordering key are
-- only named here: its gate has to be locked first. So are keys that were noted by gates/note. No join with jobs, which would read
-- all of them, those that ended included while a snapshot is held.
WITH due AS MATERIALIZED (
    SELECT id, queue_id, ordering_key, ordering_key IS NOT NULL AND NOT holds AS gated FROM jobs
     WHERE rank IS NULL AND status <> 'queued' AND run_at <= now() AND run_at > now() - make_interval(secs => %(back)s)
     ORDER BY run_at
     LIMIT %(limit)s
       FOR NO KEY UPDATE SKIP LOCKED
), ready AS (
    UPDATE jobs j
       SET status = 'queued', rank = coalesce(j.place, (127 - j.priority)::bigint << 45 | j.seq), updated_at = now()
     WHERE j.id = ANY (ARRAY(SELECT id FROM due WHERE NOT gated))
    RETURNING j.id, j.queue_id, j.rank
)
SELECT ready.id::text, q.name, ready.rank, NULL FROM ready JOIN queues q ON q.id = ready.queue_id
UNION ALL
SELECT due.id::text, q.name, NULL, due.ordering_key FROM due JOIN queues q ON q.id = due.queue_id WHERE due.gated
UNION ALL
SELECT NULL, q.name, NULL, c.key FROM (SELECT DISTINCT queue_id, key FROM order_checks) c JOIN queues q ON q.id = c.queue_id
 ORDER BY 3
