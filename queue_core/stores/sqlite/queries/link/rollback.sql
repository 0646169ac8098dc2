-- Take back everything since the begin.
ROLLBACK
