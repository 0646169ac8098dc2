-- What is known about jobs; a result that is over its retention is gone.
SELECT j.id, CASE j.place WHEN 'trashed' THEN 'dead' ELSE j.place END, CASE WHEN j.finished_at > :since THEN j.result END, j.error,
       j.place = 'completed' AND j.finished_at <= :since
  FROM (SELECT DISTINCT value FROM json_each(:ids)) i CROSS JOIN jobs j ON j.id = i.value
