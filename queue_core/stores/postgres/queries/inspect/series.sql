-- The last minutes, the one that runs now included, empty ones too.
SELECT m.minute, coalesce(sum(t.n) FILTER (WHERE t.outcome = 'enqueued'), 0)::bigint,
       coalesce(sum(t.n) FILTER (WHERE t.outcome = 'completed'), 0)::bigint,
       coalesce(sum(t.n) FILTER (WHERE t.outcome = 'retried'), 0)::bigint,
       coalesce(sum(t.n) FILTER (WHERE t.outcome = 'dead'), 0)::bigint
  FROM (SELECT date_trunc('minute', now()) - make_interval(mins => n) AS minute
          FROM generate_series(0, %(minutes)s - 1) AS n) m
  LEFT JOIN (SELECT minute, queue_id, outcome, n FROM minutes
              WHERE minute > now() - make_interval(mins => %(minutes)s)
             UNION ALL
             SELECT date_trunc('minute', at), queue_id, outcome, n FROM tally_deltas
              WHERE at > now() - make_interval(mins => %(minutes)s)) t
    ON t.minute = m.minute
   AND (%(queue)s::text IS NULL OR t.queue_id = (SELECT id FROM queues WHERE name = %(queue)s))
 GROUP BY m.minute
 ORDER BY m.minute
