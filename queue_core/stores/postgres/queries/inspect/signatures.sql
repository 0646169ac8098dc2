-- Groups of dead jobs by error: what is there, from the index alone where the filter allows it, and the deaths of each minute.
WITH bounds AS MATERIALIZED (
    SELECT extract(epoch FROM now())::float8 - %(window)s::float8 AS since, %(window)s::float8 AS seconds
), one AS MATERIALIZED (
    SELECT v.signature, v.queue, v.queue_id, v.type, {slice} AS slice, count(*) AS n, max(v.updated_at) AS last
      FROM {place} v
     WHERE {conditions}
     GROUP BY v.signature, v.queue, v.queue_id, v.type, slice
), grown AS MATERIALIZED (
    {deaths}
), trend AS (
    SELECT signature, sum(n)::bigint AS grown, array_agg(slice) AS slices, array_agg(n) AS deaths FROM grown GROUP BY signature
), top AS (
    SELECT o.signature, sum(o.n)::bigint AS count, max(o.last) AS last, coalesce(t.grown, 0) AS grown, t.slices, t.deaths
      FROM one o LEFT JOIN trend t USING (signature)
     GROUP BY o.signature, t.grown, t.slices, t.deaths
     ORDER BY coalesce(t.grown, 0) DESC, sum(o.n) DESC, o.signature
     LIMIT %(limit)s
)
SELECT g.signature, coalesce(e.title, '') AS title, g.count, g.grown, g.slices, g.deaths,
       coalesce(e.first_seen, g.last) AS first_seen, g.last,
       (SELECT array_agg(t.type ORDER BY t.n DESC, t.type) FROM
         (SELECT type, sum(n) AS n FROM one WHERE one.signature = g.signature GROUP BY type) t) AS types,
       (SELECT array_agg(t.n ORDER BY t.n DESC, t.type) FROM
         (SELECT type, sum(n)::bigint AS n FROM one WHERE one.signature = g.signature GROUP BY type) t) AS counts,
       (SELECT array_agg(DISTINCT one.queue) FROM one WHERE one.signature = g.signature) AS queues,
       (SELECT v.id::text FROM {place} v
         WHERE v.signature = g.signature AND {conditions}
         ORDER BY {order} LIMIT 1) AS sample
  FROM top g LEFT JOIN error_signatures e USING (signature)
 ORDER BY g.grown DESC, g.count DESC, g.signature
