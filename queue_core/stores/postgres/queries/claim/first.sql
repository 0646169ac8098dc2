-- Return the best rank of a ready job above and up to some, part after part.
SELECT j.rank
  FROM unnest(%(above)s::bigint[], %(up_to)s::bigint[]) AS p (above, up_to)
 CROSS JOIN LATERAL (
       SELECT j.rank FROM jobs j
        WHERE j.queue_id = %(queue_id)s
          AND j.rank IS NOT NULL
          AND j.rank > p.above AND j.rank <= p.up_to
          AND (%(types)s::text[] IS NULL OR j.type = ANY (%(types)s::text[]))
          AND coalesce((SELECT false FROM leases l WHERE l.id = j.id), true)
        ORDER BY j.rank
        LIMIT 1) j
 LIMIT 1
