-- Where the last members are now that an operation has changed; null = gone.
SELECT j.place, count(*)
  FROM (SELECT job_id FROM operation_members INDEXED BY operation_members_changed
         WHERE operation = ? AND changed = 1 ORDER BY place DESC LIMIT ?) m
  LEFT JOIN jobs j ON j.id = m.job_id
 GROUP BY j.place
