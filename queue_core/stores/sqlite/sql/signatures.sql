-- name: facts
-- What operators have set of signatures.
SELECT signature, facts FROM signature_states WHERE :signatures IS NULL OR signature IN (SELECT value FROM json_each(:signatures))

-- name: write_facts
-- Write what is set of a signature.
INSERT INTO signature_states (signature, facts) VALUES (?, ?) ON CONFLICT (signature) DO UPDATE SET facts = excluded.facts

-- name: deaths
-- The deaths of some signatures by release.
SELECT signature, release, n, first_at, last_at, last_started FROM signature_releases
 WHERE signature IN (SELECT value FROM json_each(?))
 ORDER BY signature, release

-- name: runs
-- What became of the jobs of each type by release.
SELECT type, release, completed, dead, last_at FROM type_releases ORDER BY type, release
