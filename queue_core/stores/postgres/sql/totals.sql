-- name: deaths
-- The growth of each signature by slice, from the deaths of each minute and the totals that are not yet folded into them.
SELECT d.signature, least(greatest(floor((d.minute - b.since) * %(slices)s / b.seconds), 0), %(slices)s - 1)::int AS slice,
       sum(d.n)::bigint AS n
  FROM bounds b
 CROSS JOIN LATERAL (
    SELECT signature, queue_id, extract(epoch FROM minute)::float8 AS minute, n
      FROM {schema}.signature_minutes WHERE minute > to_timestamp(b.since) - interval '1 minute'
     UNION ALL
    SELECT signature, queue_id, extract(epoch FROM date_trunc('minute', at))::float8, n
      FROM {schema}.tally_deltas
     WHERE outcome = 'dead' AND date_trunc('minute', at) > to_timestamp(b.since) - interval '1 minute') d
 WHERE (d.signature, d.queue_id) IN (SELECT signature, queue_id FROM one)
 GROUP BY 1, 2

-- name: deaths_of
-- The growth of each signature by slice, from the jobs that were counted.
SELECT signature, slice, sum(n)::bigint AS n FROM one WHERE slice IS NOT NULL GROUP BY 1, 2

-- name: tallies
-- Exact totals by queue, type and outcome, with their buckets: what is folded and what is not yet.
SELECT q.name, t.type, t.outcome, t.wait_bucket::int, t.run_bucket::int, sum(t.n)::bigint, sum(t.wait_us)::bigint,
       sum(t.run_us)::bigint
  FROM (SELECT queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us FROM {schema}.tallies
        UNION ALL
        SELECT queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us FROM {schema}.tally_deltas) t
  JOIN {schema}.queues q ON q.id = t.queue_id
 GROUP BY 1, 2, 3, 4, 5
 ORDER BY 1, 2, 3

-- name: series
-- The last minutes, the one that runs now included, empty ones too.
SELECT m.minute, coalesce(sum(t.n) FILTER (WHERE t.outcome = 'enqueued'), 0)::bigint,
       coalesce(sum(t.n) FILTER (WHERE t.outcome = 'completed'), 0)::bigint,
       coalesce(sum(t.n) FILTER (WHERE t.outcome = 'retried'), 0)::bigint,
       coalesce(sum(t.n) FILTER (WHERE t.outcome = 'dead'), 0)::bigint
  FROM (SELECT date_trunc('minute', now()) - make_interval(mins => n) AS minute
          FROM generate_series(0, %(minutes)s - 1) AS n) m
  LEFT JOIN (SELECT minute, queue_id, outcome, n FROM {schema}.minutes
              WHERE minute > now() - make_interval(mins => %(minutes)s)
             UNION ALL
             SELECT date_trunc('minute', at), queue_id, outcome, n FROM {schema}.tally_deltas
              WHERE at > now() - make_interval(mins => %(minutes)s)) t
    ON t.minute = m.minute
   AND (%(queue)s::text IS NULL OR t.queue_id = (SELECT id FROM {schema}.queues WHERE name = %(queue)s))
 GROUP BY m.minute
 ORDER BY m.minute

-- name: conservation
-- Where every job is: the rows that are there, and from the totals those that were purged or are over their retention.
WITH total AS MATERIALIZED (
    SELECT outcome, sum(n)::bigint AS n
      FROM (SELECT outcome, n FROM {schema}.tallies
             WHERE outcome IN ('expired_completed', 'expired_cancelled', 'expired_dead', 'purged', 'retried')
            UNION ALL
            SELECT outcome, n FROM {schema}.tally_deltas
             WHERE outcome IN ('expired_completed', 'expired_cancelled', 'expired_dead', 'purged', 'retried')) t
     GROUP BY outcome
), history AS MATERIALIZED (
    SELECT status, count(*) AS n FROM {schema}.job_history GROUP BY status
)
SELECT coalesce((SELECT n FROM history WHERE status = 'completed'), 0)
         + coalesce((SELECT n FROM total WHERE outcome = 'expired_completed'), 0),
       (SELECT count(*) FROM {schema}.jobs_dead)
         + coalesce((SELECT sum(n)::bigint FROM total WHERE outcome IN ('expired_dead', 'purged')), 0),
       coalesce((SELECT n FROM history WHERE status = 'cancelled'), 0)
         + coalesce((SELECT n FROM total WHERE outcome = 'expired_cancelled'), 0),
       (SELECT count(*) FROM {schema}.jobs),
       coalesce((SELECT n FROM total WHERE outcome = 'retried'), 0)

-- name: titles
-- Return the next signatures that were first seen so long ago, and of each whether no dead job outside the trash has it.
SELECT e.signature, NOT EXISTS (SELECT FROM {schema}.jobs_dead d WHERE d.signature = e.signature AND d.trashed_at IS NULL),
       e.first_seen < now() - make_interval(secs => %(seconds)s)
  FROM (SELECT * FROM {schema}.error_signatures WHERE signature > %(after)s ORDER BY signature LIMIT %(limit)s) e
 ORDER BY e.signature

-- name: titles_in_trash
-- Return the next jobs of the trash with their signatures.
SELECT trashed_at::text, id::text, signature
  FROM {schema}.jobs_dead
 WHERE trashed_at IS NOT NULL AND (trashed_at, id) > (%(at)s::text::timestamptz, %(id)s::uuid)
 ORDER BY trashed_at, id
 LIMIT %(limit)s

-- name: restore_titles
-- Bring titles back that were forgotten while a job died with their signature: it had found them there.
INSERT INTO {schema}.error_signatures (signature, title, exception, first_seen)
SELECT i.signature, i.title, i.exception, i.first_seen::timestamptz
  FROM unnest(%(signatures)s::text[], %(titles)s::text[], %(exceptions)s::text[], %(first_seen)s::text[])
       AS i (signature, title, exception, first_seen)
 WHERE EXISTS (SELECT FROM {schema}.jobs_dead d WHERE d.signature = i.signature)
    ON CONFLICT (signature) DO NOTHING

-- name: signatures
-- Groups of dead jobs by error: what is there, from the index alone where the filter allows it, and the deaths of each minute.
WITH bounds AS MATERIALIZED (
    SELECT extract(epoch FROM now())::float8 - %(window)s::float8 AS since, %(window)s::float8 AS seconds
), one AS MATERIALIZED (
    SELECT v.signature, v.queue, v.queue_id, v.type, {slice} AS slice, count(*) AS n, max(v.updated_at) AS last
      FROM {view} v
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
), types AS MATERIALIZED (
    -- Once for all: as a subquery of each signature, 1,000 of them with 20 types and queues each took 11 s, not 1.
    SELECT t.signature, array_agg(t.type ORDER BY t.n DESC, t.type) AS types, array_agg(t.n ORDER BY t.n DESC, t.type) AS counts
      FROM (SELECT signature, type, sum(n)::bigint AS n FROM one GROUP BY signature, type) t
     GROUP BY t.signature
), places AS MATERIALIZED (
    SELECT signature, array_agg(DISTINCT queue) AS queues FROM one GROUP BY signature
)
SELECT g.signature, coalesce(e.title, '') AS title, g.count, g.grown, g.slices, g.deaths,
       coalesce(e.first_seen, g.last) AS first_seen, g.last, t.types, t.counts, p.queues,
       (SELECT v.id::text FROM {view} v
         WHERE v.signature = g.signature AND {conditions}
         ORDER BY {order} LIMIT 1) AS sample
  FROM top g JOIN types t USING (signature) JOIN places p USING (signature)
  LEFT JOIN {schema}.error_signatures e USING (signature)
 ORDER BY g.grown DESC, g.count DESC, g.signature

-- name: forget_titles
-- Forget the titles of signatures that no dead job has, with all else that is known of them, and return them.
WITH gone AS (
    DELETE FROM {schema}.error_signatures e
     WHERE signature = ANY (%(signatures)s::text[])
       AND NOT EXISTS (SELECT FROM {schema}.jobs_dead d WHERE d.signature = e.signature AND d.trashed_at IS NULL)
    RETURNING signature, title, exception, first_seen
), deaths AS (
    -- Those since they were resolved, too: "<signature> <time>".
    DELETE FROM {schema}.signature_releases
     WHERE split_part(signature, ' ', 1) = ANY (ARRAY(SELECT signature FROM gone)) AND EXISTS (SELECT FROM gone)
), facts AS (
    DELETE FROM {schema}.signature_states WHERE signature = ANY (ARRAY(SELECT signature FROM gone))
)
SELECT signature, title, exception, first_seen::text FROM gone
