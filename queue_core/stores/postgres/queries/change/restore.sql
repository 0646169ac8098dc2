-- Move jobs from the trash back into the DLQ, but for those that were run again since their tokens were noted.
WITH locked AS MATERIALIZED (
    SELECT d.id
      FROM (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token) ORDER BY id) i
     CROSS JOIN LATERAL (SELECT id FROM jobs_dead d
                          WHERE d.id = i.id AND d.trashed_at IS NOT NULL AND (i.token IS NULL OR d.last_token = i.token)
                            FOR UPDATE) d
)
UPDATE jobs_dead SET trashed_at = NULL WHERE id = ANY (ARRAY(SELECT id FROM locked)) RETURNING id::text
