-- Note a schedule's last tick and its job.
UPDATE schedules SET last_tick = to_timestamp(%(due)s), last_job = %(job_id)s WHERE name = %(name)s RETURNING name
