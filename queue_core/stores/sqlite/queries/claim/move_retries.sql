-- Move the ends of backoffs along with a clock that was set; a scheduled job may be meant for a time of day.
UPDATE jobs SET run_at = run_at + :seconds WHERE place = 'retrying'
