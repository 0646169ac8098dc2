-- The growth of each signature by slice, from the jobs that were counted.
SELECT signature, slice, sum(n)::bigint AS n FROM one WHERE slice IS NOT NULL GROUP BY 1, 2
