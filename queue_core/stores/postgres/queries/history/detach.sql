-- Take a day out of the history. Waits for whoever reads the history, and lets nobody else wait; one that is interrupted is
-- half detached, and no query sees it any more.
ALTER TABLE job_history DETACH PARTITION {day} CONCURRENTLY
