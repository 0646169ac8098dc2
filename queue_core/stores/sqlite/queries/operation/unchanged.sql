-- Those of the next members whose jobs are as they were frozen.
SELECT m.place, m.job_id
  FROM operation_members m CROSS JOIN jobs j ON j.id = m.job_id
 WHERE m.operation = ? AND m.place > ? AND m.place <= ? AND j.token = m.token
 ORDER BY m.place
