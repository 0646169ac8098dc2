-- The deaths of each minute by signature and queue, of jobs that match a filter.
SELECT v.signature, v.queue_id, extract(epoch FROM date_trunc('minute', v.updated_at))::float8 AS minute, count(*) AS n
  FROM {place} v
 WHERE v.updated_at > to_timestamp(c.since) - interval '1 minute'
   AND date_trunc('minute', v.updated_at) > to_timestamp(c.since) - interval '1 minute'
   AND {conditions}
 GROUP BY 1, 2, 3
