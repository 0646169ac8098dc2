-- Return members that were changed, in their order, behind a place.
SELECT place, job_id, queue FROM operation_members
 WHERE operation = %(number)s AND changed AND place > %(after)s
 ORDER BY place
 LIMIT %(limit)s
