-- How many jobs left the store for good, and how many attempts were retried.
SELECT outcome, sum(n) FROM tallies
 WHERE outcome IN ('expired_completed', 'expired_cancelled', 'expired_dead', 'purged', 'retried')
 GROUP BY outcome
