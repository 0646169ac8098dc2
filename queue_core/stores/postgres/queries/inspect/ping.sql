-- Answer, to measure the way.
SELECT 1
