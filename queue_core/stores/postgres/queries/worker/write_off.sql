-- Remove the entries and leaderships of workers whose processes are gone, and end their leases, so that the next reclaim takes
-- their jobs back. A lease that somebody has locked is about to end: waiting for it here could only deadlock.
WITH soft AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), held AS MATERIALIZED (
    SELECT l.id FROM leases l, soft WHERE l.worker = ANY (%(workers)s::text[]) AND l.expires_at >= now()
       FOR NO KEY UPDATE OF l SKIP LOCKED
), ended AS (
    UPDATE leases SET expires_at = now() - interval '1 second' WHERE id = ANY (ARRAY(SELECT id FROM held))
), resigned AS (
    DELETE FROM leaders WHERE worker = ANY (%(workers)s::text[])
)
DELETE FROM workers WHERE id = ANY (%(workers)s::text[])
