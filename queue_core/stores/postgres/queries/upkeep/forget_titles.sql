-- Forget the titles of signatures that no dead job has, and return them.
DELETE FROM error_signatures e
 WHERE signature = ANY (%(signatures)s::text[])
   AND NOT EXISTS (SELECT FROM jobs_dead d WHERE d.signature = e.signature AND d.trashed_at IS NULL)
RETURNING signature, title, exception, first_seen::text
