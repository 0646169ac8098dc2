-- Move jobs from the trash back into the DLQ, but for those that were changed since their tokens were noted: each
-- change gives a new one.
WITH locked AS MATERIALIZED (
    SELECT d.id
      FROM (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token) ORDER BY id) i
     CROSS JOIN LATERAL (SELECT id FROM jobs_dead d
                          WHERE d.id = i.id AND d.trashed_at IS NOT NULL AND (i.token IS NULL OR d.last_token = i.token)
                            FOR UPDATE) d
)
UPDATE jobs_dead
   SET trashed_at = NULL, last_token = coalesce((SELECT epoch FROM lease_epoch_live), (SELECT epoch FROM lease_epoch))::bigint << 40 | nextval('lease_seq')
 WHERE id = ANY (ARRAY(SELECT id FROM locked))
RETURNING id::text
