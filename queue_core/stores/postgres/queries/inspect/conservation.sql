-- Where every job is: the rows that are there, and from the totals those that were purged or are over their retention.
WITH total AS MATERIALIZED (
    SELECT outcome, sum(n)::bigint AS n
      FROM (SELECT outcome, n FROM tallies
             WHERE outcome IN ('expired_completed', 'expired_cancelled', 'expired_dead', 'purged', 'retried')
            UNION ALL
            SELECT outcome, n FROM tally_deltas
             WHERE outcome IN ('expired_completed', 'expired_cancelled', 'expired_dead', 'purged', 'retried')) t
     GROUP BY outcome
), history AS MATERIALIZED (
    SELECT status, count(*) AS n FROM job_history GROUP BY status
)
SELECT coalesce((SELECT n FROM history WHERE status = 'completed'), 0)
         + coalesce((SELECT n FROM total WHERE outcome = 'expired_completed'), 0),
       (SELECT count(*) FROM jobs_dead)
         + coalesce((SELECT sum(n)::bigint FROM total WHERE outcome IN ('expired_dead', 'purged')), 0),
       coalesce((SELECT n FROM history WHERE status = 'cancelled'), 0)
         + coalesce((SELECT n FROM total WHERE outcome = 'expired_cancelled'), 0),
       (SELECT count(*) FROM jobs),
       coalesce((SELECT n FROM total WHERE outcome = 'retried'), 0)
