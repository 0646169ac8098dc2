-- Tell of queues that got jobs, when the caller's transaction commits; equal ones arrive once.
SELECT pg_notify('queue_core_committed', queue) FROM unnest(%(queues)s::text[]) AS q (queue)
