-- How many jobs of one place match, counting no further than a limit.
SELECT count(*) FROM (
    SELECT 1
      FROM jobs j {index} CROSS JOIN queues q ON q.number = j.queue_id{payloads}
     WHERE {place}
       AND {conditions}
     LIMIT :limit)
