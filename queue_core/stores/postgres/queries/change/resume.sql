-- Resume a queue; tells whether the queue exists and whether this changed it.
WITH found AS MATERIALIZED (
    SELECT id FROM queues WHERE name = %(queue)s
), changed AS (
    UPDATE queues q SET paused_at = NULL FROM found f WHERE q.id = f.id AND q.paused_at IS NOT NULL RETURNING q.id
)
SELECT EXISTS (SELECT FROM found), EXISTS (SELECT FROM changed)
