-- The tokens of those of these jobs that run.
SELECT j.id, j.token FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value WHERE j.place = 'running'
