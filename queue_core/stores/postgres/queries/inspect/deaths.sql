-- The growth of each signature by slice, from the deaths of each minute and the totals that are not yet folded into them.
SELECT d.signature, least(greatest(floor((d.minute - b.since) * %(slices)s / b.seconds), 0), %(slices)s - 1)::int AS slice,
       sum(d.n)::bigint AS n
  FROM bounds b
 CROSS JOIN LATERAL (
    SELECT signature, queue_id, extract(epoch FROM minute)::float8 AS minute, n
      FROM signature_minutes WHERE minute > to_timestamp(b.since) - interval '1 minute'
     UNION ALL
    SELECT signature, queue_id, extract(epoch FROM date_trunc('minute', at))::float8, n
      FROM tally_deltas
     WHERE outcome = 'dead' AND date_trunc('minute', at) > to_timestamp(b.since) - interval '1 minute') d
 WHERE (d.signature, d.queue_id) IN (SELECT signature, queue_id FROM one)
 GROUP BY 1, 2
