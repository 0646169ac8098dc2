-- Move running jobs whose lease still holds to completed or cancelled: jobs first, then leases, then the history.
WITH input AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::uuid[], %(token)s::bigint[], %(status)s::text[], %(run_us)s::bigint[], %(result)s::text[])
           AS i (id, token, status, run_us, result)
), gone AS (
    DELETE FROM jobs j USING input i, leases l
     WHERE j.id = i.id AND l.id = i.id AND l.token = i.token AND j.last_token < i.token
    RETURNING j.*, i.token, i.status AS outcome, i.run_us, i.result, l.worker, l.started_at
), freed AS (
    DELETE FROM leases l USING gone g WHERE l.id = g.id AND l.token = g.token
), kept AS (
    INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, retry_count, crashes,
                             max_retries, last_token, error, result, worker, created_at, started_at)
    SELECT id, queue_id, seq, priority, outcome::job_status, run_at, type, payload, tags, retry_count, crashes,
           max_retries, token, error, result, worker, created_at, started_at
      FROM gone
), measured AS (
    SELECT queue_id, type, outcome, run_us,
           greatest(0, extract(epoch FROM started_at - run_at) * 1000000)::bigint AS wait_us
      FROM gone
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, wait_bucket, run_bucket, n, wait_us, run_us)
    SELECT queue_id, type, outcome, width_bucket(wait_us - 1, %(bounds)s::bigint[]), width_bucket(run_us - 1, %(bounds)s::bigint[]),
           count(*), sum(wait_us), sum(run_us)
      FROM measured
     GROUP BY 1, 2, 3, 4, 5
)
SELECT id::text, token FROM gone
