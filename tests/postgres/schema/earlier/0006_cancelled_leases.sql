-- The leases that somebody asked to cancel, for each heartbeat: a scan of all reads the ended ones, too, for as long as an open
-- snapshot keeps them. Claims, renewals and settles do not touch it.
CREATE INDEX leases_cancelled ON leases (worker) WHERE cancel;
