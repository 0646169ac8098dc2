-- Tell whether the live copy of the lease epoch is there; a crash of the server takes it away.
SELECT count(*) FROM lease_epoch_live
