-- name: expire_dead
-- Remove dead jobs that are over their retention, a batch; the totals go on counting them. Those that hold
-- their ordering keys only by their ids, when these are locked.
WITH removed AS (
    DELETE FROM {schema}.jobs_dead
     WHERE id = ANY (ARRAY(SELECT id FROM {schema}.jobs_dead
                            WHERE trashed_at IS NULL AND died_at < now() - make_interval(secs => %(seconds)s)
                              AND CASE WHEN %(ids)s::uuid[] IS NULL THEN NOT admitted ELSE id = ANY (%(ids)s::uuid[]) END
                            ORDER BY died_at, id LIMIT %(limit)s))
    RETURNING id, queue_id, type
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'expired_dead', count(*) FROM removed GROUP BY 1, 2
), attempts AS (
    DELETE FROM {schema}.job_attempts a USING removed g WHERE a.job_id = g.id
)
SELECT count(*) FROM removed

-- name: empty_trash
-- Remove jobs that were in the trash for its retention, a batch; the totals go on counting them.
WITH removed AS (
    DELETE FROM {schema}.jobs_dead
     WHERE id = ANY (ARRAY(SELECT id FROM {schema}.jobs_dead
                            WHERE trashed_at < now() - make_interval(secs => %(seconds)s)
                            ORDER BY trashed_at, id LIMIT %(limit)s))
    RETURNING id, queue_id, type
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'expired_dead', count(*) FROM removed GROUP BY 1, 2
), attempts AS (
    DELETE FROM {schema}.job_attempts a USING removed g WHERE a.job_id = g.id
)
SELECT count(*) FROM removed

-- name: trim_capacity
-- Forget what was requeued long before any count that is still used.
DELETE FROM {schema}.capacity_requeued WHERE at < now() - interval '10 minutes'

-- name: trim_series
-- Forget minutes that no series shows any more, and workers and leaders that are long gone.
WITH series AS (
    DELETE FROM {schema}.minutes WHERE minute < now() - make_interval(secs => %(seconds)s)
), growth AS (
    DELETE FROM {schema}.signature_minutes WHERE minute < now() - make_interval(secs => %(seconds)s)
), lost AS (
    DELETE FROM {schema}.workers WHERE heartbeat_at < now() - interval '1 day'
)
DELETE FROM {schema}.leaders WHERE expires_at < now() - interval '1 day'

-- name: orphans
-- Remove expired leases without a job: what a crash of the server between two asynchronous commits can leave.
DELETE FROM {schema}.leases l
 WHERE l.expires_at < now()
   AND l.id = ANY (ARRAY(SELECT e.id FROM unnest(%(first_rows)s::tid[], %(last_rows)s::tid[]) AS part (first_row, last_row)
                          CROSS JOIN LATERAL (SELECT id FROM {schema}.leases
                                               WHERE expires_at < now() AND ctid BETWEEN part.first_row AND part.last_row
                                              OFFSET 0) e))
   AND (SELECT true FROM {schema}.jobs j WHERE j.id = l.id) IS NULL

-- name: fold
-- Fold appended tallies into the totals, the minutes, the minutes of each signature, and those of releases.
WITH taken AS MATERIALIZED (
    DELETE FROM {schema}.tally_deltas
     WHERE ctid = ANY (ARRAY(SELECT d.place FROM unnest(%(first_rows)s::tid[], %(last_rows)s::tid[]) AS part (first_row, last_row)
                              CROSS JOIN LATERAL (SELECT ctid AS place FROM {schema}.tally_deltas
                                                   WHERE ctid BETWEEN part.first_row AND part.last_row
                                                  OFFSET 0) d
                              LIMIT %(limit)s))
    RETURNING *
), totals AS (
    INSERT INTO {schema}.tallies AS t (queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us)
    SELECT queue_id, type, outcome, wait_bucket, run_bucket, sum(n), sum(wait_us), sum(run_us)
      FROM taken GROUP BY 1, 2, 3, 4, 5
        ON CONFLICT (queue_id, type, outcome, wait_bucket, run_bucket) DO UPDATE
       SET n = t.n + excluded.n, wait_us = t.wait_us + excluded.wait_us, run_us = t.run_us + excluded.run_us
), series AS (
    INSERT INTO {schema}.minutes AS m (minute, queue_id, outcome, n)
    SELECT date_trunc('minute', at), queue_id, outcome, sum(n) FROM taken GROUP BY 1, 2, 3
        ON CONFLICT (minute, queue_id, outcome) DO UPDATE SET n = m.n + excluded.n
), growth AS (
    INSERT INTO {schema}.signature_minutes AS s (minute, signature, queue_id, n)
    SELECT date_trunc('minute', at), signature, queue_id, sum(n) FROM taken WHERE signature <> '' GROUP BY 1, 2, 3
        ON CONFLICT (minute, signature, queue_id) DO UPDATE SET n = s.n + excluded.n
), resolved AS MATERIALIZED (
    SELECT left(signature, -length(' resolved')) AS signature, n, first_at AS at, last_started IS NOT NULL AS by_begin
      FROM {schema}.signature_releases
     WHERE signature = ANY (ARRAY(SELECT DISTINCT signature || ' resolved' FROM taken WHERE signature <> '')) AND release = 0
), deaths AS (
    INSERT INTO {schema}.signature_releases AS d (signature, release, n, first_at, last_at, last_started)
    SELECT signature, release, sum(n), min(at), max(at), max(started_at)
      FROM (SELECT signature, release, n, at, started_at FROM taken WHERE signature <> ''
            UNION ALL
            -- Those since it was resolved once more; see signatures/note_resolved.
            SELECT r.signature || ' ' || r.n, t.release, t.n, t.at, t.started_at FROM taken t JOIN resolved r USING (signature)
             WHERE t.at > r.at AND (t.started_at > r.at OR NOT r.by_begin AND t.release <> 0)) t
     GROUP BY 1, 2
        ON CONFLICT (signature, release) DO UPDATE
       SET n = d.n + excluded.n, first_at = least(d.first_at, excluded.first_at), last_at = greatest(d.last_at, excluded.last_at),
           last_started = greatest(d.last_started, excluded.last_started)
), runs AS (
    INSERT INTO {schema}.type_releases AS r (type, release, completed, dead, last_at)
    SELECT type, release, coalesce(sum(n) FILTER (WHERE outcome = 'completed'), 0), coalesce(sum(n) FILTER (WHERE outcome = 'dead'), 0),
           max(at) FILTER (WHERE outcome = 'completed')
      FROM taken WHERE outcome IN ('completed', 'dead') GROUP BY 1, 2
        ON CONFLICT (type, release) DO UPDATE
       SET completed = r.completed + excluded.completed, dead = r.dead + excluded.dead, last_at = greatest(r.last_at, excluded.last_at)
)
SELECT count(*) FROM taken

-- name: keys_of_expired
-- Return dead jobs that are over their retention and still hold their ordering keys, a batch.
SELECT d.id::text, q.name, d.ordering_key
  FROM {schema}.jobs_dead d JOIN {schema}.queues q ON q.id = d.queue_id
 WHERE d.admitted AND d.trashed_at IS NULL AND d.died_at < now() - make_interval(secs => %(seconds)s)
 LIMIT %(limit)s

-- name: trim_schedule_ticks
-- Forget some ticks that passed before a time; return their number.
WITH removed AS (
    DELETE FROM {schema}.schedule_ticks WHERE (schedule, tick) IN (
        SELECT schedule, tick FROM {schema}.schedule_ticks WHERE tick < now() - make_interval(secs => %(seconds)s)
         ORDER BY tick LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed

-- name: partitions_made
-- Whether all partitions of the history are there, or another process is creating them now, under the lock that make_job_history takes.
SELECT NOT EXISTS (SELECT FROM generate_series(-1, 7) AS n
                    WHERE to_regclass('{schema}.job_history_' || to_char((now() AT TIME ZONE 'UTC')::date + n, 'YYYYMMDD')) IS NULL)
       OR EXISTS (SELECT FROM pg_locks
                   WHERE locktype = 'advisory' AND granted AND classid::bigint << 32 | objid::bigint = hashtextextended('queue_core history {schema}', 0)
                         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))

-- name: has_today
-- Whether the history has a place for what ends today.
SELECT to_regclass('{schema}.job_history_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NOT NULL

-- name: forget_operations
-- Forget some operations that are over their retention, with a batch of their members: themselves only when these were the last
-- ones. Returns whether there may be more.
WITH old AS MATERIALIZED (
    SELECT number FROM {schema}.operations
     WHERE finished_at IS NOT NULL AND updated_at < now() - make_interval(secs => %(seconds)s)
     ORDER BY updated_at
     LIMIT 100
       FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM {schema}.operation_members
     WHERE ctid = ANY (ARRAY(SELECT m.ctid
                               FROM old o
                              CROSS JOIN LATERAL (SELECT ctid FROM {schema}.operation_members m
                                                   WHERE m.operation = o.number LIMIT %(limit)s) m
                              LIMIT %(limit)s))
    RETURNING 1
), tallied AS MATERIALIZED (
    SELECT count(*) AS n FROM removed
), forgotten AS (
    DELETE FROM {schema}.operations
     WHERE number = ANY (ARRAY(SELECT number FROM old)) AND (SELECT n FROM tallied) < %(limit)s
)
SELECT (SELECT n FROM tallied) = %(limit)s OR (SELECT count(*) FROM old) = 100

-- name: abandon_operations
-- Cancel operations that are still preparing so long after their last change: their authors are gone.
UPDATE {schema}.operations SET state = 'cancelled', note = %(note)s, updated_at = clock_timestamp(), finished_at = clock_timestamp()
 WHERE number = ANY (ARRAY(SELECT number FROM {schema}.operations
                            WHERE finished_at IS NULL AND state = 'preparing'
                              AND updated_at < now() - make_interval(secs => %(seconds)s)
                              FOR NO KEY UPDATE SKIP LOCKED))
RETURNING number
