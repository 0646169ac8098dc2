-- Return a page of a queue's ready jobs in order, of the ranks above and up to some, part after part.
SELECT j.id::text, j.rank
  FROM unnest(%(above)s::bigint[], %(up_to)s::bigint[]) AS p (above, up_to)
 CROSS JOIN LATERAL (
       SELECT j.id, j.rank FROM jobs j
        WHERE j.queue_id = %(queue_id)s
          AND j.rank IS NOT NULL
          AND j.rank > p.above AND j.rank <= p.up_to
          AND coalesce((SELECT false FROM leases l WHERE l.id = j.id), true)
        ORDER BY j.rank
        LIMIT %(limit)s) j
 LIMIT %(limit)s
