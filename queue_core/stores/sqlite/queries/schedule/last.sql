-- Note a schedule's last tick and its job.
UPDATE schedules SET last_tick = :due, last_job = :job_id WHERE name = :name
