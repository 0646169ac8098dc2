-- name: left
-- Return whether a day has any job left.
SELECT EXISTS (SELECT FROM {day})

-- name: drop
-- Drop a day that is detached and empty.
DROP TABLE IF EXISTS {day}

-- name: finalize
-- Take a day out of the history that is half detached.
ALTER TABLE {schema}.job_history DETACH PARTITION {day} FINALIZE

-- name: detach
-- Take a day out of the history. Waits for readers of the history, and lets no other transaction wait; one that is interrupted is
-- half detached, and no query sees it any more.
ALTER TABLE {schema}.job_history DETACH PARTITION {day} CONCURRENTLY

-- name: empty
-- Remove the jobs in some pages of a day that is over its retention; the totals go on counting them, at every moment. One that
-- is just being retried is unfinished, or counted here, but never both.
WITH removed AS (
    DELETE FROM {day} WHERE ctid >= %(first)s::tid AND ctid < %(last)s::tid RETURNING id, queue_id, type, status
), tallied AS (
    INSERT INTO {schema}.tally_deltas (queue_id, type, outcome, n)
    SELECT queue_id, type, 'expired_' || status, count(*) FROM removed GROUP BY 1, 2, 3
), attempts AS (
    DELETE FROM {schema}.job_attempts a USING removed g WHERE a.job_id = g.id
)
SELECT count(*) FROM removed

-- name: old
-- Return the days of the history that ended before their retention, the oldest first, with their pages and how far they are on
-- their way out: attached, half detached by an interrupted process, or detached.
SELECT * FROM (
    SELECT c.relname::text AS day, pg_relation_size(c.oid) / current_setting('block_size')::int AS pages,
           CASE WHEN i.inhdetachpending THEN 'half' ELSE 'attached' END AS state,
           (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz AS ends
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = '{schema}.job_history'::regclass
    UNION ALL
    SELECT c.relname::text, 0, 'detached', (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC'
      FROM pg_class c
     WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{schema}.job_history'::regclass)
       AND c.relkind = 'r' AND c.relname ~ '^job_history_\d{8}$'
       AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
) d
 WHERE d.ends <= now() - make_interval(secs => %(seconds)s)
 ORDER BY d.ends
