-- The last number of arrival that was given out.
SELECT seq FROM counters
