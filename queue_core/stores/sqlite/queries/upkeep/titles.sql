-- The next error signatures, and of each whether it was first seen before a time and no dead job, in the trash or not, has it.
SELECT e.signature, e.first_seen < :before
       AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_dead
                        WHERE place IN ('dead', 'trashed') AND place = 'dead' AND signature = e.signature)
       AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_dead
                        WHERE place IN ('dead', 'trashed') AND place = 'trashed' AND signature = e.signature)
  FROM (SELECT signature, first_seen FROM error_signatures WHERE signature > :after ORDER BY signature LIMIT :limit) e
 ORDER BY e.signature
