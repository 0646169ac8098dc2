-- Count what became of the last members that an operation has changed, each looked up by its id.
WITH looked AS MATERIALIZED (
    SELECT CASE WHEN token IS NOT NULL THEN job_id::uuid END AS id
      FROM operation_members
     WHERE operation = %(number)s AND changed
     ORDER BY place DESC
     LIMIT %(last)s
), found AS MATERIALIZED (
    SELECT l.id, (SELECT true FROM jobs j WHERE j.id = l.id) AS unfinished,
           (SELECT true FROM jobs_dead d WHERE d.id = l.id) AS dead
      FROM looked l
), ended AS MATERIALIZED (
    SELECT f.*, h.status
      FROM found f
      -- Found by their ids and then sorted, for another index has this order.
      LEFT JOIN LATERAL (SELECT status
                           FROM (SELECT status, finished_at FROM job_history h
                                  WHERE h.id = f.id AND f.unfinished IS NULL AND f.dead IS NULL OFFSET 0) h
                          ORDER BY finished_at DESC LIMIT 1) h ON true
)
SELECT count(*), count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE unfinished IS NULL AND dead),
       count(*) FILTER (WHERE unfinished)
  FROM ended
