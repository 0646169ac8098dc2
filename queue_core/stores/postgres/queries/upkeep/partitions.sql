-- Make the history's partitions from yesterday to a week ahead; returns how many were missing.
SELECT make_job_history(7)
