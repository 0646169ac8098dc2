-- name: notify_each
-- Notify channels of messages, in the order given and in one transaction, so that each process is woken once.
SELECT set_config('synchronous_commit', 'off', true), count(pg_notify('{channels}_' || channel, message))
  FROM unnest(%(channels)s::text[], %(messages)s::text[]) AS m (channel, message)

-- name: probe
-- Show whether the connection is still there.
SELECT 1

-- name: notify
-- Notify a channel of several messages; equal ones in one transaction arrive once.
SELECT set_config('synchronous_commit', 'off', true), count(pg_notify('{channels}_' || %(channel)s, message))
  FROM unnest(%(messages)s::text[]) AS m (message)

-- name: listen_committed
-- Listen for queues that received jobs in a caller's transaction.
LISTEN "{channels}_committed"

-- name: listen_due
-- Listen for jobs that become due soon.
LISTEN "{channels}_due"

-- name: listen_events
-- Listen for lifecycle events.
LISTEN "{channels}_events"

-- name: listen_leader
-- Listen for whether the sweeps have a leader.
LISTEN "{channels}_leader"

-- name: listen_orders
-- Listen for workers with new orders.
LISTEN "{channels}_orders"

-- name: listen_probe
-- Listen for probes: notifications that only show that they arrive.
LISTEN "{channels}_probe"

-- name: listen_ranks
-- Hear of ranks that came back to where claims may have passed.
LISTEN "{channels}_ranks"

-- name: listen_ready
-- Listen for queues with ready jobs.
LISTEN "{channels}_ready"

-- name: unlisten
-- Listen to nothing any more.
UNLISTEN *
