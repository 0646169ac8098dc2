-- How the worker ended an attempt before a job's last one.
SELECT kind FROM endings WHERE job = ? AND token = ?
