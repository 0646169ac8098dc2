-- Note that a tick has passed, which it does once.
INSERT INTO schedule_ticks (schedule, tick, job_id, fired_at) VALUES (:name, :due, :job_id, :now)
    ON CONFLICT (schedule, tick) DO NOTHING
