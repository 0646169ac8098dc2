-- Move due scheduled jobs to queued, to wait for their ordering keys, whose gates are locked.
UPDATE jobs SET status = 'queued', updated_at = now()
 WHERE id = ANY (%(ids)s::uuid[]) AND status = 'scheduled' AND run_at <= now() AND NOT holds
