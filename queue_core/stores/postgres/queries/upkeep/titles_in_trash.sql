-- Return the next jobs of the trash with their signatures.
SELECT trashed_at::text, id::text, signature
  FROM jobs_dead
 WHERE trashed_at IS NOT NULL AND (trashed_at, id) > (%(at)s::text::timestamptz, %(id)s::uuid)
 ORDER BY trashed_at, id
 LIMIT %(limit)s
