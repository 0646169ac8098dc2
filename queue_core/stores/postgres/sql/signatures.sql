-- name: facts
-- What operators have set of some signatures, or of all, and the clock.
SELECT extract(epoch FROM now())::float8, s.signature, s.facts
  FROM (SELECT 1) one LEFT JOIN {schema}.signature_states s
    ON %(signatures)s::text[] IS NULL OR s.signature = ANY (%(signatures)s::text[])

-- name: add_facts
-- Write what is set of a signature of which nothing was.
INSERT INTO {schema}.signature_states (signature, changed_by, facts) VALUES (%(signature)s, %(by)s, %(after)s)
    ON CONFLICT (signature) DO NOTHING
RETURNING signature

-- name: change_facts
-- Write what is set of a signature, if it is as it was read.
UPDATE {schema}.signature_states SET facts = %(after)s, changed_by = %(by)s
 WHERE signature = %(signature)s AND changed_by = %(before)s
RETURNING signature

-- name: deaths
-- The deaths of some signatures by release: what is folded and what is not yet.
SELECT signature, release, sum(n)::bigint, extract(epoch FROM min(first_at))::float8, extract(epoch FROM max(last_at))::float8,
       coalesce(extract(epoch FROM max(last_started)), 0)::float8
  FROM (SELECT signature, release, n, first_at, last_at, last_started FROM {schema}.signature_releases
         WHERE signature = ANY (%(signatures)s::text[])
        UNION ALL
        SELECT signature, release, n, at, at, started_at FROM {schema}.tally_deltas
         WHERE signature <> '' AND signature = ANY (%(signatures)s::text[])) d
 GROUP BY 1, 2
 ORDER BY 1, 2

-- name: titles
-- The titles of errors whose signatures begin so, also of those that no dead job has any more.
SELECT signature, title FROM {schema}.error_signatures
 WHERE starts_with(signature, %(beginning)s)
 ORDER BY signature
 LIMIT %(limit)s

-- name: runs
-- What became of the jobs of some types on their newest releases, by number: what is folded and what is not yet.
SELECT type, release, sum(completed)::bigint, sum(dead)::bigint, coalesce(extract(epoch FROM max(last_at)), 0)::float8
  FROM (SELECT r.type, r.release, r.completed, r.dead, r.last_at
          FROM unnest(%(types)s::text[]) t (name)
         CROSS JOIN LATERAL (SELECT type, release, completed, dead, last_at FROM {schema}.type_releases
                              WHERE type = t.name ORDER BY release DESC LIMIT %(newest)s) r
        UNION ALL
        SELECT type, release, CASE WHEN outcome = 'completed' THEN n ELSE 0 END, CASE WHEN outcome = 'dead' THEN n ELSE 0 END,
               CASE WHEN outcome = 'completed' THEN at END
          FROM {schema}.tally_deltas WHERE outcome IN ('completed', 'dead') AND type = ANY (%(types)s::text[])) r
 GROUP BY 1, 2
 ORDER BY 1, 2

-- name: saved_filters
-- The filters that operators have saved, removed ones among them.
SELECT name, filter FROM {schema}.saved_filters ORDER BY name COLLATE "C"

-- name: save_filter
-- Write a saved filter of a name that has none.
INSERT INTO {schema}.saved_filters (name, changed_by, filter) VALUES (%(name)s, %(by)s, %(filter)s)
    ON CONFLICT (name) DO NOTHING
RETURNING name

-- name: change_filter
-- Write a saved filter, if it is as it was read.
UPDATE {schema}.saved_filters SET filter = %(filter)s, changed_by = %(by)s WHERE name = %(name)s AND changed_by = %(before)s
RETURNING name

-- name: forget_filter
-- Forget a saved filter, if it is as it was read.
DELETE FROM {schema}.saved_filters WHERE name = %(name)s AND changed_by = %(before)s RETURNING name
