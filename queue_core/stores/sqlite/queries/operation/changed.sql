-- Members that an operation has changed, behind a place.
SELECT m.place, m.job_id, m.queue
  FROM operation_members m INDEXED BY operation_members_changed
 WHERE m.operation = ? AND m.changed = 1 AND m.place > ?
 ORDER BY m.place
 LIMIT ?
