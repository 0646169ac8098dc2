-- The ids of jobs by their numbers, in the same order.
SELECT j.id FROM json_each(?) i CROSS JOIN jobs j ON j.number = i.value ORDER BY i.key
