-- Return how far the order of arrival has come.
SELECT last_value FROM job_seq
