-- Which of these ids are known already.
SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?))
