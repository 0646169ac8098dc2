-- Write what has changed about types.
INSERT INTO task_types (type, schema)
SELECT * FROM unnest(%(type)s::text[], %(schema)s::text[]) AS i (type, schema)
 ORDER BY type
    ON CONFLICT (type) DO UPDATE SET schema = excluded.schema, announced_at = now()
