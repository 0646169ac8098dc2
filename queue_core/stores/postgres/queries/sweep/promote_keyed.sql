-- Move due scheduled and retrying jobs to queued, to wait for their ordering keys, whose gates are locked or noted. A row that
-- somebody has locked is left to a later round.
WITH due AS MATERIALIZED (
    SELECT id FROM jobs
     WHERE id = ANY (%(ids)s::uuid[]) AND status IN ('scheduled', 'retrying') AND run_at <= now() AND NOT holds
       AND queue_id || ' ' || ordering_key = ANY (%(gates)s::text[])
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs SET status = 'queued', updated_at = now() WHERE id = ANY (ARRAY(SELECT id FROM due))
