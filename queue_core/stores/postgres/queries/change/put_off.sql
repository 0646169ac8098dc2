-- Let the leader hear that jobs were put off: they may be due before it looks by itself.
SELECT pg_notify('queue_core_due', '')
