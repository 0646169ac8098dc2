-- Return the next signatures that were first seen so long ago, and of each whether no dead job outside the trash has it.
SELECT e.signature, NOT EXISTS (SELECT FROM jobs_dead d WHERE d.signature = e.signature AND d.trashed_at IS NULL),
       e.first_seen < now() - make_interval(secs => %(seconds)s)
  FROM (SELECT * FROM error_signatures WHERE signature > %(after)s ORDER BY signature LIMIT %(limit)s) e
 ORDER BY e.signature
