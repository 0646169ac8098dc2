-- The jobs among these that run, with their tokens and the place of the last line in their logs.
SELECT j.id, j.number, j.token, l.number, l.token, l.line
  FROM json_each(?) i
 CROSS JOIN jobs j ON j.id = i.value AND j.place = 'running'
  LEFT JOIN job_logs l ON l.job = j.number AND l.number = (SELECT max(number) FROM job_logs WHERE job = j.number)
