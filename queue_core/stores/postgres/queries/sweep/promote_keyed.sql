-- Move due scheduled and retrying jobs to queued, to wait for their ordering keys, whose gates are locked or noted. A row that
-- somebody has locked is left to a later round. Each is looked up by its id alone, whatever the statistics say of those that are due.
WITH due AS MATERIALIZED (
    SELECT j.id
      FROM unnest(%(ids)s::uuid[]) AS i (id)
     CROSS JOIN LATERAL (SELECT id, queue_id, ordering_key, status, run_at, holds FROM jobs WHERE id = i.id OFFSET 0
                            FOR NO KEY UPDATE SKIP LOCKED) j
     WHERE j.status IN ('scheduled', 'retrying') AND j.run_at <= now() AND NOT j.holds
       AND j.queue_id || ' ' || j.ordering_key = ANY (%(gates)s::text[])
)
UPDATE jobs SET status = 'queued', updated_at = now() WHERE id = ANY (ARRAY(SELECT id FROM due))
