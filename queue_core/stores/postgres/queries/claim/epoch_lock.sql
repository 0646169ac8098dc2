-- Let one connection at a time raise the epoch.
SELECT epoch FROM lease_epoch FOR UPDATE
