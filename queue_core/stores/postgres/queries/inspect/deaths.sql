-- The deaths of each minute by signature and queue: from the minutes, and from the totals that are not yet folded.
SELECT signature, queue_id, extract(epoch FROM minute)::float8 AS minute, n
  FROM signature_minutes WHERE minute > to_timestamp(c.since) - interval '1 minute'
 UNION ALL
SELECT signature, queue_id, extract(epoch FROM date_trunc('minute', at))::float8, n
  FROM tally_deltas
 WHERE outcome = 'dead' AND date_trunc('minute', at) > to_timestamp(c.since) - interval '1 minute'
