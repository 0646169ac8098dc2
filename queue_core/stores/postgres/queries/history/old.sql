-- Return the days of the history that ended before their retention, the oldest first, with their pages and how far they are on
-- their way out: attached, half detached by somebody who was interrupted, or detached.
SELECT * FROM (
    SELECT c.relname::text AS day, pg_relation_size(c.oid) / current_setting('block_size')::int AS pages,
           CASE WHEN i.inhdetachpending THEN 'half' ELSE 'attached' END AS state,
           (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz AS ends
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'job_history'::regclass
    UNION ALL
    SELECT c.relname::text, 0, 'detached', (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC'
      FROM pg_class c
     WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'job_history'::regclass)
       AND c.relkind = 'r' AND c.relname ~ '^job_history_\d{8}$'
       AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
) d
 WHERE d.ends <= now() - make_interval(secs => %(seconds)s)
 ORDER BY d.ends
