-- Notify a channel of several messages; equal ones in one transaction arrive once.
SELECT set_config('synchronous_commit', 'off', true), count(pg_notify(%(channel)s, message))
  FROM unnest(%(messages)s::text[]) AS m (message)
