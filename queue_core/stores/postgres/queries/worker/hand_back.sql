-- End the leases of a worker but for some jobs, as not begun: the next reclaim releases them.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), held AS MATERIALIZED (
    SELECT l.id FROM leases l, soft WHERE l.worker = %(worker)s AND l.id <> ALL (%(begun)s::uuid[])
       FOR NO KEY UPDATE OF l SKIP LOCKED
)
UPDATE leases SET expires_at = now() - interval '1 second', begun = false WHERE id = ANY (ARRAY(SELECT id FROM held))
