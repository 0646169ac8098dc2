-- Write what has changed about a type.
INSERT INTO task_types (type, schema, announced_at) VALUES (?, ?, ?)
    ON CONFLICT (type) DO UPDATE SET schema = excluded.schema, announced_at = excluded.announced_at
