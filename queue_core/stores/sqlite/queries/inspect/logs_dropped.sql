-- A job's number, and how many lines of its log are not kept any more.
SELECT j.number, (SELECT coalesce(max(number), 0) - count(*) FROM job_logs WHERE job = j.number) FROM jobs j WHERE j.id = ?
