-- Move jobs from the trash back into the DLQ.
WITH locked AS MATERIALIZED (
    SELECT id FROM jobs_dead WHERE id = ANY (%(ids)s::uuid[]) AND trashed_at IS NOT NULL ORDER BY id FOR UPDATE
)
UPDATE jobs_dead d SET trashed_at = NULL FROM locked l WHERE d.id = l.id RETURNING d.id::text
