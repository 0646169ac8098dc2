-- The queues and types of each worker whose last heartbeat is not three intervals old.
SELECT queues, types FROM workers WHERE ? - heartbeat_at <= 3 * interval_s
