-- name: facts
-- What operators have set of signatures.
SELECT signature, facts FROM signature_states WHERE :signatures IS NULL OR signature IN (SELECT value FROM json_each(:signatures))

-- name: write_facts
-- Write what is set of a signature.
INSERT INTO signature_states (signature, facts) VALUES (?, ?) ON CONFLICT (signature) DO UPDATE SET facts = excluded.facts

-- name: note_resolved
-- Note when a signature was resolved: from then on the first death on each release is kept, too, under "<signature> <that time in us>".
-- Of "<signature> resolved" n is that time, and last_started 0 where also attempts count that began before.
INSERT INTO signature_releases (signature, release, n, first_at, last_at, last_started)
VALUES (:signature || ' resolved', 0, :us, :at, :at, CASE WHEN :by_begin THEN :at ELSE 0.0 END)
    ON CONFLICT DO UPDATE SET n = excluded.n, first_at = excluded.first_at, last_at = excluded.last_at, last_started = excluded.last_started

-- name: deaths
-- The deaths of some signatures by release, with the first one since each was last resolved (0: none).
SELECT d.signature, d.release, d.n, d.first_at, d.last_at, d.last_started,
       coalesce((SELECT b.first_at
                   FROM signature_releases r JOIN signature_releases b ON b.signature = d.signature || ' ' || r.n AND b.release = d.release
                  WHERE r.signature = d.signature || ' resolved' AND r.release = 0), 0.0)
  FROM signature_releases d
 WHERE d.signature IN (SELECT value FROM json_each(?))
 ORDER BY d.signature, d.release

-- name: titles
-- The titles of errors whose signatures begin so, also of those that no dead job has any more.
SELECT signature, title FROM error_signatures
 WHERE substr(signature, 1, length(:beginning)) = :beginning
 ORDER BY signature
 LIMIT :limit

-- name: runs
-- What became of the jobs of some types on their newest releases, by number.
SELECT r.type, r.release, r.completed, r.dead, r.last_at FROM json_each(:types) t JOIN type_releases r ON r.type = t.value
 WHERE r.release IN (SELECT release FROM type_releases WHERE type = t.value ORDER BY release DESC LIMIT :newest)
 ORDER BY r.type, r.release

-- name: saved_filters
-- The filters that operators have saved, removed ones among them.
SELECT name, filter FROM saved_filters ORDER BY name

-- name: filter_changed_by
-- The operation that changed a saved filter last.
SELECT changed_by FROM saved_filters WHERE name = ?

-- name: save_filter
-- Write a saved filter.
INSERT INTO saved_filters (name, changed_by, filter) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET changed_by = excluded.changed_by, filter = excluded.filter

-- name: forget_filter
-- Forget a saved filter.
DELETE FROM saved_filters WHERE name = ?
