-- Create queues that do not exist yet and return the numbers of all that were named.
WITH created AS (
    INSERT INTO queues (name)
    SELECT name FROM unnest(%(names)s::text[]) AS n (name)
     WHERE NOT EXISTS (SELECT FROM queues q WHERE q.name = n.name)
        ON CONFLICT (name) DO NOTHING
    RETURNING name, id
)
SELECT name, id FROM created
UNION ALL
SELECT q.name, q.id FROM queues q WHERE q.name = ANY (%(names)s::text[])
