-- name: create
-- Create queues that do not exist yet; return the numbers of all that were named, and whether this created them.
WITH created AS (
    INSERT INTO {schema}.queues (name)
    SELECT name FROM unnest(%(names)s::text[]) AS n (name)
     WHERE NOT EXISTS (SELECT FROM {schema}.queues q WHERE q.name = n.name)
        ON CONFLICT (name) DO NOTHING
    RETURNING name, id
)
SELECT name, id, true FROM created
UNION ALL
SELECT q.name, q.id, false FROM {schema}.queues q WHERE q.name = ANY (%(names)s::text[])

-- name: read
-- Return every queue and whether it is paused.
SELECT name, id, paused_at IS NOT NULL FROM {schema}.queues ORDER BY name
