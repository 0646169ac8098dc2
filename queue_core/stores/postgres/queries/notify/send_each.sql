-- Notify channels of messages, in the order given and in one transaction, so that each process is woken once.
SELECT set_config('synchronous_commit', 'off', true), count(pg_notify(channel, message))
  FROM unnest(%(channels)s::text[], %(messages)s::text[]) AS m (channel, message)
