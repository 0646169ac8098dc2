-- Make the store as empty as a new one; the lease epoch and the sequences go on.
DELETE FROM jobs;
DELETE FROM leases;
DELETE FROM jobs_dead;
DELETE FROM job_history;
DELETE FROM job_attempts;
DELETE FROM error_signatures;
DELETE FROM tally_deltas;
DELETE FROM tallies;
DELETE FROM minutes;
DELETE FROM signature_minutes;
DELETE FROM workers;
DELETE FROM leaders;
DELETE FROM queues;
