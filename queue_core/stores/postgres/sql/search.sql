-- name: page
-- The next dead jobs, whether they match or not: how many, the last one, and those that match. Each is read by its id: with a text in
-- the conditions the planner would rather read the whole table.
WITH page AS MATERIALIZED (
    SELECT v.id, v.updated_at FROM {view} v WHERE {leading} ORDER BY {order} LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM page),
       (SELECT (extract(epoch FROM updated_at) * 1000000)::bigint || '.' || id FROM page ORDER BY updated_at, id LIMIT 1),
       ARRAY(SELECT f.id::text FROM page p
              CROSS JOIN LATERAL (SELECT v.id FROM {view} v WHERE v.id = p.id AND v.updated_at = p.updated_at AND {conditions} OFFSET 0) f
              ORDER BY p.updated_at DESC, p.id DESC)

-- name: total
-- How many dead jobs a search looks at.
SELECT count(*) FROM {view} v WHERE {conditions}
