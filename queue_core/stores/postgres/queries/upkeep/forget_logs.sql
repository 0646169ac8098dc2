-- Forget the lines of jobs that are gone, among the next ones by their key; returns the last key and the number looked at.
WITH looked AS MATERIALIZED (
    SELECT job_id, number FROM job_logs
     WHERE (job_id, number) > (%(job)s::uuid, %(number)s) ORDER BY job_id, number LIMIT %(limit)s
), gone AS MATERIALIZED (
    SELECT k.job_id
      FROM (SELECT DISTINCT job_id FROM looked) k
     WHERE NOT EXISTS (SELECT FROM jobs WHERE id = k.job_id)
       AND NOT EXISTS (SELECT FROM jobs_dead WHERE id = k.job_id)
       AND NOT EXISTS (SELECT FROM job_history WHERE id = k.job_id)
), forgotten AS (
    DELETE FROM job_logs
     WHERE ctid = ANY (ARRAY(SELECT l.ctid
                               FROM looked k
                              CROSS JOIN LATERAL (SELECT ctid FROM job_logs
                                                   WHERE job_id = k.job_id AND number = k.number OFFSET 0) l
                              WHERE (k.job_id IN (SELECT job_id FROM gone)) IS TRUE))
)
SELECT job_id::text, number, (SELECT count(*) FROM looked) FROM looked ORDER BY job_id DESC, number DESC LIMIT 1
