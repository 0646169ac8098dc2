-- Forget what went back among the waiting long before any count that is still used.
DELETE FROM queue_returns WHERE at < now() - interval '10 minutes'
