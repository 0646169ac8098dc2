-- Forget some operations that are over their retention, with a batch of their members: themselves only when these were the last
-- ones. Tells whether there may be more.
WITH old AS MATERIALIZED (
    SELECT number FROM operations
     WHERE finished_at IS NOT NULL AND updated_at < now() - make_interval(secs => %(seconds)s)
     ORDER BY updated_at
     LIMIT 100
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM operation_members
     WHERE ctid = ANY (ARRAY(SELECT m.ctid
                               FROM old o
                              CROSS JOIN LATERAL (SELECT ctid FROM operation_members m
                                                   WHERE m.operation = o.number LIMIT %(limit)s) m
                              LIMIT %(limit)s))
    RETURNING 1
), counted AS MATERIALIZED (
    SELECT count(*) AS n FROM gone
), forgotten AS (
    DELETE FROM operations
     WHERE number = ANY (ARRAY(SELECT number FROM old)) AND (SELECT n FROM counted) < %(limit)s
)
SELECT (SELECT n FROM counted) = %(limit)s OR (SELECT count(*) FROM old) = 100
