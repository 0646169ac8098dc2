-- What is known of these types.
SELECT type, schema FROM task_types WHERE type = ANY (%(types)s::text[])
