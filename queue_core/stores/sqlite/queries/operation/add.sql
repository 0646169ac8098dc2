-- Append a member that an operation does not have yet, as its job is now.
INSERT INTO operation_members (operation, place, job_id, token, queue)
SELECT :number, :place, :id, j.token, coalesce(q.name, '')
  FROM (SELECT 1) LEFT JOIN jobs j ON j.id = :id LEFT JOIN queues q ON q.number = j.queue_id
 WHERE true
    ON CONFLICT (job_id, operation) DO NOTHING
