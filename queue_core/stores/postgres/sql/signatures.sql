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

-- name: note_resolved
-- Note when a signature was resolved: from then on its deaths are folded under "<signature> <that time in us>", too. Of
-- "<signature> resolved" n is that time, and last_started null where also attempts count that began before.
INSERT INTO {schema}.signature_releases (signature, release, n, first_at, last_at, last_started)
VALUES (%(signature)s || ' resolved', 0, %(us)s, to_timestamp(%(at)s), to_timestamp(%(at)s),
        CASE WHEN %(by_begin)s THEN to_timestamp(%(at)s) END)
    ON CONFLICT (signature, release) DO UPDATE
   SET n = excluded.n, first_at = excluded.first_at, last_at = excluded.last_at, last_started = excluded.last_started

-- name: deaths
-- The deaths of some signatures by release, with the first one since each was last resolved (0: none): what is folded and what is
-- not yet.
WITH resolved AS (
    SELECT s.signature, s.signature || ' ' || r.n AS since, r.first_at AS at, r.last_started IS NOT NULL AS by_begin
      FROM unnest(%(signatures)s::text[]) s (signature)
      JOIN {schema}.signature_releases r ON r.signature = s.signature || ' resolved' AND r.release = 0
)
SELECT signature, release, sum(n)::bigint, extract(epoch FROM min(first_at))::float8, extract(epoch FROM max(last_at))::float8,
       coalesce(extract(epoch FROM max(last_started)), 0)::float8, coalesce(extract(epoch FROM min(back_at)), 0)::float8
  FROM (SELECT signature, release, n, first_at, last_at, last_started, NULL::timestamptz AS back_at FROM {schema}.signature_releases
         WHERE signature = ANY (%(signatures)s::text[])
        UNION ALL
        SELECT r.signature, d.release, 0, d.first_at, d.last_at, d.last_started, d.first_at
          FROM resolved r JOIN {schema}.signature_releases d ON d.signature = r.since
        UNION ALL
        SELECT t.signature, t.release, t.n, t.at, t.at, t.started_at,
               CASE WHEN t.at > r.at AND (t.started_at > r.at OR NOT r.by_begin AND t.release <> 0) THEN t.at END
          FROM {schema}.tally_deltas t LEFT JOIN resolved r USING (signature)
         WHERE t.signature <> '' AND t.signature = ANY (%(signatures)s::text[])) d
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
