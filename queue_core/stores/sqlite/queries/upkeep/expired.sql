-- Jobs that came to a final place before a time, the first ones first.
SELECT jobs.number, jobs.queue_id, q.name, jobs.type, jobs.ordering_key, jobs.holds, jobs.unique_key
  FROM jobs INDEXED BY jobs_listed CROSS JOIN queues q ON q.number = jobs.queue_id
 WHERE jobs.place = ? AND jobs.updated_at < ?
 ORDER BY jobs.updated_at
 LIMIT ?
