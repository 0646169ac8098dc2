-- Move dead jobs to the trash, where none holds its ordering key; those that do, where its gate is locked.
WITH locked AS MATERIALIZED (
    SELECT id FROM jobs_dead WHERE id = ANY (%(ids)s::uuid[]) AND trashed_at IS NULL
       AND (NOT holds OR queue_id || ' ' || ordering_key = ANY (%(gates)s::text[]))
     ORDER BY id FOR UPDATE
)
UPDATE jobs_dead d SET trashed_at = now(), holds = false FROM locked l WHERE d.id = l.id RETURNING d.id::text
