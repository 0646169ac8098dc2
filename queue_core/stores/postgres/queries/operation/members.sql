-- Return the next members of a locked operation.
SELECT job_id, token FROM operation_members
 WHERE operation = %(number)s AND place > %(done)s::int AND place <= %(done)s::int + %(count)s::int
 ORDER BY place
