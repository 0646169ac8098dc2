-- Tell of queues that got jobs, and of their ranks first, when the caller's transaction commits; equal ones arrive once.
SELECT pg_notify(m.channel, m.message)
  FROM (SELECT 'queue_core_ranks' AS channel, unnest(%(ranks)s::text[]) AS message
        UNION ALL
        SELECT 'queue_core_committed', unnest(%(queues)s::text[])) m
