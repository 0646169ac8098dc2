-- Move dead jobs to the trash, where none holds its ordering key; those that do, where its gate is locked. Not those that were
-- changed since their tokens were noted: each change gives a new one.
WITH locked AS MATERIALIZED (
    SELECT d.id
      FROM (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i (id, token) ORDER BY id) i
     CROSS JOIN LATERAL (SELECT id FROM jobs_dead d
                          WHERE d.id = i.id AND d.trashed_at IS NULL AND (i.token IS NULL OR d.last_token = i.token)
                            AND (NOT d.holds OR d.queue_id || ' ' || d.ordering_key = ANY (%(gates)s::text[]))
                            FOR UPDATE) d
)
UPDATE jobs_dead
   SET trashed_at = now(), holds = false,
       last_token = coalesce((SELECT epoch FROM lease_epoch_live), (SELECT epoch FROM lease_epoch))::bigint << 40 | nextval('lease_seq')
 WHERE id = ANY (ARRAY(SELECT id FROM locked))
RETURNING id::text
