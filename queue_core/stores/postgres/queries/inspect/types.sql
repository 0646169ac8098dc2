-- What workers have announced of types.
SELECT type, schema, announced_at FROM task_types ORDER BY type
