-- Take a day out of the history that is half detached.
ALTER TABLE job_history DETACH PARTITION {day} FINALIZE
