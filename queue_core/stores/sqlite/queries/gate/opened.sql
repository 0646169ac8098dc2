-- How many jobs an ordering key has let through that have not let go of it.
SELECT count(*) FROM jobs INDEXED BY jobs_gate WHERE queue_id = ? AND ordering_key = ? AND holds = 1
