-- The types of each worker whose last heartbeat is not three intervals old.
SELECT types FROM workers WHERE ? - heartbeat_at <= 3 * interval_s
